# python -m pytest tests/peers/test_llama_cpp.py
"""What the comparison makes of its figures; that it can be made is shown by making it."""

import numpy as np
import pytest

from tests.peers.llama_cpp import likeness_of, summary


def test_each_figure_is_compared_with_the_way_that_was_fastest() -> None:
    def ways(plain: float, flash: float) -> dict[str, dict[str, float]]:
        return {
            "plain": {"decode_tok_s": plain, "prefill_tok_s": 10 * flash},
            "flash": {"decode_tok_s": flash, "prefill_tok_s": 10 * plain},
        }

    ours = [{"decode_tok_s": speed, "prefill_tok_s": 100.0} for speed in (30.0, 40.0, 50.0)]
    found = summary(list(zip(ours, [ways(20, 10), ways(25, 15), ways(10, 5)], strict=True)))
    decode, prefill = found["decode_tok_s"], found["prefill_tok_s"]
    assert (decode["way"], decode["best_ratio"], decode["median_ratio"]) == ("plain", 2.0, 2.0)
    assert (prefill["way"], prefill["best_ratio"], prefill["median_ratio"]) == ("flash", 0.4, 0.5)


def test_logits_are_alike_where_every_position_is() -> None:
    ours = np.array([[1, 2, 3, 4], [4, 3, 2, 1]], np.float32)
    assert likeness_of(ours, 2 * ours + 1) == {
        "positions": 2,
        "same_best_token": 2,
        "least_correlation": pytest.approx(1),
    }
    turned = likeness_of(ours, np.array([[1, 2, 3, 4], [1, 2, 3, 4]], np.float32))
    assert turned["same_best_token"] == 1 and turned["least_correlation"] == pytest.approx(-1)
