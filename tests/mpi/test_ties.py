# make test-mpi-4, or: mpirun -np 4 python -m pytest --with-mpi tests/mpi/test_ties.py
"""Two equal maxima in different ranks' slices of the vocabulary: the lower id, on every number of ranks."""

import json
from pathlib import Path

import numpy as np
import pytest

from dllama_py.engine.generate import generate
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.token_loop import Token
from dllama_py.transport.comm import Comm
from tests.checkpoints import own_folder
from tests.golden import make_tiny_hf
from tests.support.engines import engine_on, logits_of

pytestmark = pytest.mark.mpi

PROMPT = [3, 14, 159, 26]


def with_twin_rows(folder: Path, best: int, twins: tuple[int, int]) -> None:
    """Give both twins the head's row of the best id, and take it from that one."""
    head = make_tiny_hf.tensors(make_tiny_hf.MODELS["tiny-llama"])["lm_head.weight"]
    path = folder / json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]["lm_head.weight"]
    data, twin = path.read_bytes(), head.copy()
    twin[list(twins)] = head[best]
    twin[best] = 0
    assert data.count(head.tobytes()) == 1
    path.write_bytes(data.replace(head.tobytes(), twin.tobytes()))


@pytest.mark.parametrize("weights", ["q40", "f32"])
@pytest.mark.parametrize("twins", [(7, 200), (79, 80), (159, 160), (0, 319)])
def test_the_lower_id_wins(comm: Comm, tmp_path: Path, weights: str, twins: tuple[int, int]) -> None:
    folder = tmp_path / "tiny"
    if comm.rank == 0:
        own_folder(folder)
    with engine_on(comm, folder, weights=weights) as engine:
        if engine is not None:
            best = int(np.argmax(logits_of(engine, PROMPT)[-1]))
            assert best not in twins
            with_twin_rows(folder, best, twins)
    with engine_on(comm, folder, weights=weights) as engine:
        if engine is None:
            return
        last = logits_of(engine, PROMPT)[-1]
        assert np.flatnonzero(last == last.max()).tolist() == sorted(twins)
        for settings in (SamplerSettings(), SamplerSettings(temperature=0.8, top_k=1, seed=1)):
            sequence = CachedSequence(engine.runner, slot=0)
            ids = [e.id for e in generate(sequence, PROMPT, settings, 1, 320) if isinstance(e, Token)]
            assert ids == [min(twins)]
