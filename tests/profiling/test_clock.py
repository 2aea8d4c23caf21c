# python -m pytest tests/profiling/test_clock.py
import numpy as np

from dllama_py.profiling.clock import ROOT, Reading, on_root_clock, read_clocks, reading
from dllama_py.transport.comm import SoloComm


def test_half_a_round_trip_is_taken_off() -> None:
    assert reading(1000, 51_500, 2000) == Reading(50_000, 1500, 1000)


def test_the_root_alone_has_its_own_clock() -> None:
    assert read_clocks(SoloComm()) == [ROOT]
    stamps = np.array([5, 6])
    assert on_root_clock(stamps, ROOT, ROOT).tolist() == [5, 6]


def test_a_clock_that_is_off_and_one_that_runs_fast() -> None:
    steady = Reading(1000, 0, 10), Reading(1000, 1_000_000, 10)
    assert on_root_clock(np.array([1000, 501_000]), *steady).tolist() == [0, 500_000]
    fast = Reading(1000, 0, 10), Reading(2000, 1_000_000, 10)  # a thousandth too fast
    assert on_root_clock(np.array([1000, 501_500, 1_002_000]), *fast).tolist() == [0, 500_000, 1_000_000]


def test_large_clocks_keep_their_nanoseconds() -> None:
    boot = 1 << 60
    before, after = Reading(boot, 1_000_000_000, 10), Reading(boot + 256, 2_000_000_000, 10)
    assert on_root_clock(np.array([boot + 1_500_000_128]), before, after).tolist() == [1_500_000_000]
