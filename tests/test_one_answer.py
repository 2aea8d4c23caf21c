# python -m pytest tests/test_one_answer.py
"""The law of the house on ranks that are threads of this process; tests/mpi has all of it, on real ranks."""

from pathlib import Path

import pytest

from dllama_py.transport.comm import Comm
from tests.checkpoints import own_folder, untied_copy
from tests.support.engines import Logits, engine_on, logits_of, solo_logits
from tests.support.threads import run_ranks

IDS = [(29 * i * i + 11 * i + 5) % 300 for i in range(70)]


@pytest.mark.parametrize(("name", "exchange"), [("tiny-qwen3", "f32"), ("tiny-qwen3", "q80"), ("tiny-qwen2moe", "f32")])
def test_any_number_of_ranks_gives_the_bits_of_one(tmp_path: Path, name: str, exchange: str) -> None:
    model = own_folder(tmp_path / "model", name, distinct=True)
    (alone,) = solo_logits(model, [IDS], exchange=exchange)

    def work(comm: Comm) -> Logits | None:
        with engine_on(comm, model, exchange=exchange) as engine:
            return None if engine is None else logits_of(engine, IDS, chunk_rows=32)

    for n_ranks in (2, 4):
        found, *nothing = run_ranks(n_ranks, work)
        assert found is not None
        assert found.tobytes() == alone.tobytes(), f"{n_ranks} ranks"
        assert nothing == [None] * (n_ranks - 1)


def test_a_tied_head_answers_like_an_untied_copy(tmp_path: Path) -> None:
    tied = own_folder(tmp_path / "tied", "tiny-llama31", distinct=True)
    untied = untied_copy(tied, tmp_path / "untied")
    for weights in ("f32", "q40"):
        (one,), (other,) = (solo_logits(model, [IDS], weights=weights) for model in (tied, untied))
        assert one.tobytes() == other.tobytes(), weights
