# python -m pytest tests/transport/test_waiting.py
"""How a rank waits: it learns from the last waits how long it may sleep."""

import pytest

from dllama_py.transport.waiting import Waiter


class Moved:
    """A clock that only sleeping moves on, and 10 microseconds a look."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        self.now += 5e-6
        return self.now

    def sleep(self, seconds: float, /) -> None:
        self.now += seconds
        self.slept.append(seconds)


def wait(waiter: Waiter, clock: Moved, seconds: float) -> tuple[int, int]:
    """-> looks, and how often something else was to be done."""
    clock.slept.clear()
    until = clock.now + seconds
    waiter.begin()
    rounds = []
    while clock.now < until:
        rounds.append(waiter.pause())
    waiter.end()
    return len(rounds), sum(rounds)


def test_most_of_a_wait_like_the_last_ones_is_slept_through() -> None:
    clock = Moved()
    waiter = Waiter(spin_s=0.0002, clock=clock)
    before = [wait(waiter, clock, 0.016)[0] for _ in range(3)]
    looks, rounds = wait(waiter, clock, 0.016)
    assert looks < min(before) / 5 and 2 <= rounds <= 8
    assert clock.slept[:3] == pytest.approx([0.005, 0.005, 0.002], abs=2e-4) and max(clock.slept[3:]) < 0.0001


def test_one_short_wait_among_the_last_ones_and_nothing_is_sure() -> None:
    clock = Moved()
    waiter = Waiter(clock=clock)
    for seconds in (0.016, 0.0005, 0.016):
        wait(waiter, clock, seconds)
    wait(waiter, clock, 0.0015)
    assert clock.slept == []  # it spins for 2 ms


def test_a_long_wait_is_looked_at_every_few_milliseconds() -> None:
    clock = Moved()
    waiter = Waiter(clock=clock)
    for _ in range(4):
        wait(waiter, clock, 100.0)
    assert max(clock.slept) == 0.005
