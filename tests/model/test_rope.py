# python -m pytest tests/model/test_rope.py
import hashlib

import numpy as np
import pytest

from dllama_py.model.angles import turned
from dllama_py.model.rope import frequencies, shared_tables
from dllama_py.rope_scaling import inverse_frequencies
from dllama_py.transport.comm import SoloComm
from tests.checkpoints import tiny_config


@pytest.mark.parametrize(("theta", "width"), [(10000.0, 64), (500000.0, 128), (1e6, 16)])
def test_tables_are_cos_and_sin(theta: float, width: int) -> None:
    cos, sin = turned(inverse_frequencies(theta, width), 5000)
    angles = np.outer(np.arange(5000), theta ** (-np.arange(0, width, 2) / width))
    assert np.abs(cos - np.cos(angles)).max() < 2e-12  # numpy's angles are rounded, ours are not
    assert np.abs(sin - np.sin(angles)).max() < 2e-12


def test_far_positions_stay_on_the_circle() -> None:
    cos, sin = turned(inverse_frequencies(1e6, 8), 1 << 17)
    assert np.abs(cos * cos + sin * sin - 1).max() < 1e-14


def test_llama3_scaling_divides_the_low_frequencies() -> None:
    config = tiny_config("tiny-llama31")
    plain = inverse_frequencies(config.rope_theta, config.head_width)
    scaled = frequencies(config)
    ratios = [float(scaled[i] / plain[i]) for i in range(len(plain))]
    assert ratios[0] == 1.0
    assert ratios[-1] == pytest.approx(1 / 32, rel=1e-12)


def test_the_same_bits_on_every_machine() -> None:
    """Pinned: decimal and single float64 operations leave no room for another result."""
    tables = shared_tables(tiny_config("tiny-llama31"), 512, SoloComm())
    digest = hashlib.sha256(tables.cos.tobytes() + tables.sin.tobytes()).hexdigest()
    assert digest == "fab0df859c20b4b81149709b68173e3ffbc6b934a8059f3b39313f29e91d2804"
