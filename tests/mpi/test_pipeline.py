# make test-mpi-5, or: mpirun -np 5 python -m pytest --with-mpi tests/mpi/test_pipeline.py
"""Stages one behind the other answer as one rank alone does, bit for bit, however the layers are split."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dllama_py.boot import Engine
from dllama_py.cli.stages_record import HopWatch
from dllama_py.engine.generate import generate
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.step import Row, Work
from dllama_py.engine.together import Together
from dllama_py.engine.token_loop import Token, token_loop
from dllama_py.settings import PipelineSettings
from dllama_py.transport.comm import Comm, SoloComm
from tests.checkpoints import tiny_gguf
from tests.support.engines import Logits, engine_on, fed, ids_of, in_batches, logits_of, solo_logits

pytestmark = pytest.mark.mpi(sizes=(2, 4, 5))

N_LAYERS = 7
IDS = [(29 * i * i + 11 * i + 5) % 300 for i in range(75)]
TEXTS = [[(17 * i * i + 3 * i + 100) % 300 for i in range(31)], IDS, [(7 * i + 200) % 300 for i in range(13)]]
STEPS = ((20, 0, 9), (1, 40, 1), (1, 22, 1), (1, 1, 1), (5, 1, 1), (3, 11, 0))
SPLITS = {
    2: ["auto", "6,1", "0,7", "7,0"],  # the root has none; the other one has none
    4: ["auto", "1,2,3,1", "3,0,0,4"],
    5: ["auto", "3:1:1:1:1", "2,1,0,1,3"],
}


@pytest.fixture
def model(comm: Comm, tmp_path: Path) -> Callable[..., Path]:
    """Makes a model at the root, which alone needs the file."""

    def make(name: str = "tiny-llama", **changes: Any) -> Path:
        path = tmp_path / "model.gguf"
        if comm.rank == 0:
            tiny_gguf(path, name, distinct=True, num_hidden_layers=N_LAYERS, **changes)
        return path

    return make


def check(comm: Comm, model: Path, pipeline: PipelineSettings, **settings: Any) -> None:
    """Prompts in chunks, ids after a prefix, batches."""
    alone = solo_logits(model, TEXTS, **settings) if comm.rank == 0 else []
    with engine_on(comm, model, n_slots=3, pipeline=pipeline, **settings) as engine:
        if engine is None:
            return
        for chunk_rows in (64, 16, 7, 1):
            assert logits_of(engine, IDS, chunk_rows=chunk_rows).tobytes() == alone[1].tobytes()
        sequence = CachedSequence(engine.runner, 0)
        fed(sequence, IDS[:60] + [1, 2, 3])
        assert fed(sequence, IDS).tobytes() == alone[1][60:].tobytes()
        for found, wanted in zip(in_batches(engine, TEXTS, STEPS), alone, strict=True):
            assert all(logits.tobytes() == wanted[position].tobytes() for position, logits in found.items())


@pytest.mark.parametrize("number", range(4))
def test_a_pipeline_answers_as_one_rank_does(comm: Comm, model: Callable[..., Path], number: int) -> None:
    splits = SPLITS[comm.size]
    check(comm, model(), PipelineSettings(split=splits[number % len(splits)]))


@pytest.mark.mpi(sizes=(4,))
@pytest.mark.parametrize("name", ["tiny-llama", "tiny-qwen3moe"])
def test_two_stages_of_two_ranks(comm: Comm, model: Callable[..., Path], name: str) -> None:
    check(comm, model(name), PipelineSettings(2, split="3,4"), n_threads=2)


def test_chunks_of_a_prompt_follow_each_other_without_waiting(comm: Comm, model: Callable[..., Path]) -> None:
    """As many chunks as there are stages, one less and one more; nothing is wanted of any but the last."""
    path = model()
    alone = solo_logits(path, [IDS]) if comm.rank == 0 else []
    with engine_on(comm, path, pipeline=PipelineSettings(split=SPLITS[comm.size][1])) as engine:
        for n_chunks in (comm.size - 1, comm.size, comm.size + 1, 20) if engine else ():
            assert engine is not None
            sequence = CachedSequence(engine.runner, 0, chunk_rows=-(-len(IDS) // n_chunks))
            sequence.start(IDS)
            *_, last = sequence.feed(IDS)
            assert last.logits.tobytes() == alone[0][-1].tobytes()


@pytest.mark.parametrize("temperature", [0.0, 0.9, 30.0])
def test_sampling_asks_the_last_stage(comm: Comm, model: Callable[..., Path], temperature: float) -> None:
    """At 30 the candidates do not fill the nucleus, so that the rest is asked for."""
    path, settings = model(), SamplerSettings(temperature, top_p=0.97, seed=7)
    wanted: list[int] = []
    if comm.rank == 0:
        with engine_on(SoloComm(), path) as engine:
            assert engine is not None
            wanted = _sampled(engine, settings)
    with engine_on(comm, path, pipeline=PipelineSettings(split=SPLITS[comm.size][1])) as engine:
        assert engine is None or _sampled(engine, settings) == wanted


def _sampled(engine: Engine, settings: SamplerSettings) -> list[int]:
    events = generate(CachedSequence(engine.runner, 0), IDS[:9], settings, 24, 320)
    return [event.id for event in events if isinstance(event, Token)]


def test_steps_in_flight_are_answered_in_order(comm: Comm, model: Callable[..., Path]) -> None:
    path = model()
    alone = solo_logits(path, TEXTS) if comm.rank == 0 else []
    with engine_on(comm, path, pipeline=PipelineSettings(split=SPLITS[comm.size][1]), n_slots=3) as engine:
        if engine is None:
            return
        runner = engine.runner
        lasts: list[Logits] = []
        for _ in range(3):
            works = [Work(_rows(slot, text), [len(text) - 1]) for slot, text in enumerate(TEXTS[::2])]
            pending = list(map(runner.submit, works))
            lasts = [runner.collect(each).logits[0] for each in pending]
            for slot in range(2):
                runner.cut(slot, 0)
        assert [np.array_equal(last, logits[-1]) for last, logits in zip(lasts, alone[::2], strict=True)] == [True] * 2


@pytest.mark.parametrize("temperature", [0.0, 30.0])
def test_sequences_in_flight_say_what_each_says_alone(
    comm: Comm, model: Callable[..., Path], temperature: float
) -> None:
    """Two more than there are stages, so that some share steps; at 30 more is asked of steps that others overtook."""
    path, settings = model(), SamplerSettings(temperature, top_p=0.97, seed=7)
    n_sequences = comm.size + 2
    prompts = [IDS[number : 9 + 7 * number] for number in range(n_sequences)]
    alone: list[list[int]] = []
    if comm.rank == 0:
        with engine_on(SoloComm(), path) as engine:
            assert engine is not None
            alone = [ids_of(engine, prompt, settings, 12 + number) for number, prompt in enumerate(prompts)]
    with engine_on(comm, path, pipeline=PipelineSettings(split=SPLITS[comm.size][1]), n_slots=n_sequences) as engine:
        if engine is None:
            return
        sequences = [CachedSequence(engine.runner, slot, chunk_rows=16) for slot in range(n_sequences)]
        together = Together[int](engine.runner)
        for number, (sequence, prompt) in enumerate(zip(sequences, prompts, strict=True)):
            together.add(number, token_loop(sequence, prompt, settings, 12 + number, 320))
        found: list[list[int]] = [[] for _ in prompts]
        while together.n_loops:
            for number, event in together.turn():
                found[number] += [event.id] if isinstance(event, Token) else []
        assert found == alone


def _rows(slot: int, text: list[int]) -> list[Row]:
    return [Row(token, slot, position) for position, token in enumerate(text)]


def test_only_its_own_layers_are_in_a_ranks_memory(comm: Comm, model: Callable[..., Path]) -> None:
    with engine_on(comm, model(), pipeline=PipelineSettings(split=SPLITS[comm.size][1])) as engine:
        if engine is not None:
            layers = [list(shard.layers) for shard in engine.shards]
            assert sum(layers, []) == list(range(N_LAYERS))
            assert [facts.bytes_per_token > 0 for facts in engine.ranks] == [bool(own) for own in layers]


def test_a_rank_without_the_file_gets_its_layers_from_the_root(
    comm: Comm, model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other ranks find the root's own file."""
    if comm.rank == 1:
        monkeypatch.setattr("dllama_py.sharding.local_copies.open_copy", lambda copy: None)
    check(comm, model(), PipelineSettings())


def test_what_every_hop_takes(comm: Comm, model: Callable[..., Path]) -> None:
    with engine_on(comm, model(), pipeline=PipelineSettings(split=SPLITS[comm.size][1])) as engine:
        if engine is None:
            return
        watch = HopWatch(engine)
        tokens = list(generate(CachedSequence(engine.runner, 0), IDS[:20], SamplerSettings(), 6, 300))
        assert len(tokens) == 7
        leaders = [stage.leader for stage in engine.orders.grid(comm.size).stages]
        found = watch.hops()
        assert [(hop.sender, hop.receiver) for hop in found] == list(pairwise([*leaders, 0]))
        assert {hop.n_bytes for hop in found[:-1]} == {64 + 8 * 9 + 4 * engine.orders.config.width}
        assert all(0 <= hop.seconds < 1 for hop in found)


def test_hashes_are_those_of_one_rank(comm: Comm, model: Callable[..., Path]) -> None:
    found = []
    for pipeline in [PipelineSettings(split=split) for split in SPLITS[comm.size][1:]] + (
        [PipelineSettings(n_stages=2, split="3,4")] if comm.size == 4 else []
    ):
        with engine_on(comm, model(), pipeline=pipeline) as engine:
            if engine is not None:
                engine.runner.keep_hashes()
                fed(CachedSequence(engine.runner, 0, chunk_rows=7), IDS[:20])
                found.append(engine.runner.kept_hashes())
    if comm.rank == 0:
        with engine_on(SoloComm(), model()) as engine:
            assert engine is not None
            engine.runner.keep_hashes()
            fed(CachedSequence(engine.runner, 0), IDS[:20])
            residual, leaves = engine.runner.kept_hashes()
        assert residual.shape == (20, N_LAYERS + 1)
        assert all(np.array_equal(residual, other) and np.array_equal(leaves, theirs) for other, theirs in found)
