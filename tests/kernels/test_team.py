# python -m pytest tests/kernels/test_team.py
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from dllama_py.kernels import elementwise
from dllama_py.kernels.program import Program, argument, kernel
from dllama_py.kernels.team import Team
from dllama_py.kernels.vectors import get_i64, set_i64
from dllama_py.kernels.words import Words
from tests.kernels import drive
from tests.kernels.samples import random, same_bits

SLEEP_S = 0.05  # longer than helpers spin


class Count(Words):
    COUNTS = "int64 [threads, 2]"


@kernel(Count)
def count(args: int, thread: int, threads: int) -> None:
    """Adds 1 to this thread's word, and writes down how many threads there are."""
    own = argument(args, Count.COUNTS) + 16 * thread
    set_i64(own, get_i64(own) + 1)
    set_i64(own + 8, threads)


class PassOn(Words):
    X = "int64 [threads]"
    OUT = "int64 [threads]"
    MORE = "what to add to 1, or left out"


@kernel(PassOn, PassOn.MORE)
def pass_on(args: int, thread: int, threads: int) -> None:
    """out[thread] = x[next thread] + 1 + more."""
    x = get_i64(argument(args, PassOn.X) + 8 * ((thread + 1) % threads))
    set_i64(argument(args, PassOn.OUT) + 8 * thread, x + 1 + argument(args, PassOn.MORE))


class RaiseHalt(Words):
    HALT = "int64 [1]"


@kernel(RaiseHalt)
def raise_halt(args: int, thread: int, threads: int) -> None:
    """As an exchange that fails at once: only the caller's thread knows."""
    if thread == 0:
        set_i64(argument(args, RaiseHalt.HALT), 1)


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[Team]:
    team = Team(request.param)
    yield team
    team.close()


def test_every_thread_runs_every_instruction(threads: Team) -> None:
    counts = np.zeros((threads.n_threads, 2), np.int64)
    program = Program([count(counts=counts)] * 3)
    for _ in range(200):
        threads.run(program)
    assert counts.tolist() == [[600, threads.n_threads]] * threads.n_threads


def test_all_threads_end_where_the_program_is_halted(threads: Team) -> None:
    counts, halt = np.zeros((threads.n_threads, 2), np.int64), np.zeros(1, np.int64)
    program = Program([count(counts=counts), raise_halt(halt=halt), count(counts=counts)], halt)
    for _ in range(2000):
        halt[0] = 0
        threads.run(program)
    assert counts[:, 0].tolist() == [2000] * threads.n_threads


def test_an_instruction_sees_what_all_threads_wrote_before_it(threads: Team) -> None:
    a, b = np.zeros(threads.n_threads, np.int64), np.zeros(threads.n_threads, np.int64)
    program = Program([pass_on(x=a, out=b), pass_on(x=b, out=a)])
    for _ in range(500):
        threads.run(program)
    assert a.tolist() == [1000] * threads.n_threads


def test_an_instruction_without_barrier_goes_on_at_once(threads: Team) -> None:
    counts = np.zeros((threads.n_threads, 2), np.int64)
    threads.run(Program([count(counts=counts, barrier=False)] * 4 + [count(counts=counts)]))
    assert (counts[:, 0] == 5).all()


def test_helpers_that_sleep_wake_up(threads: Team) -> None:
    counts = np.zeros((threads.n_threads, 2), np.int64)
    for _ in range(4):
        time.sleep(SLEEP_S)
        threads.run(Program([count(counts=counts)]))
    assert (counts[:, 0] == 4).all()


def test_an_idle_team_uses_no_cpu() -> None:
    team = Team(3)
    team.run(Program([count(counts=np.zeros((3, 2), np.int64))]))
    time.sleep(4 * SLEEP_S)
    start = time.process_time()
    time.sleep(4 * SLEEP_S)
    used_s = time.process_time() - start
    team.close()
    assert used_s < SLEEP_S


def test_a_closed_team_leaves_no_thread_whether_its_helpers_slept_or_not() -> None:
    before = set(threading.enumerate())
    for pause_s in (0, SLEEP_S):
        team = Team(3)
        team.run(Program([count(counts=np.zeros((3, 2), np.int64))]))
        time.sleep(pause_s)
        team.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(60)  # on a busy machine longer than close waits
    assert set(threading.enumerate()) <= before


def test_teams_do_not_disturb_each_other() -> None:
    teams = [Team(2), Team(2)]
    counts = [np.zeros((2, 2), np.int64) for _ in teams]
    for _ in range(50):
        for team, words in zip(teams, counts, strict=True):
            team.run(Program([count(counts=words)]))
    for team in teams:
        team.close()
    assert [words[:, 0].tolist() for words in counts] == [[50, 50]] * 2


def test_the_arrays_of_a_program_live_as_long_as_it_does(threads: Team) -> None:
    x = random(1, 64)
    y = random(1, 64, seed=2)
    program = Program([elementwise.add(n_rows=drive.words(1), x=x, y=y.copy(), n_blocks=2)])  # held by nobody else
    expected = x + y
    threads.run(program)
    assert same_bits(x, expected)


def test_a_program_ends_with_a_barrier() -> None:
    with pytest.raises(AssertionError, match="ends with a barrier"):
        Program([count(counts=np.zeros((1, 2), np.int64), barrier=False)])


def test_words_are_given_by_name_and_optional_ones_are_zero(threads: Team) -> None:
    a, b = np.zeros(threads.n_threads, np.int64), np.zeros(threads.n_threads, np.int64)
    threads.run(Program([pass_on(out=b, x=a), pass_on(more=40, out=a, x=b)]))
    assert a.tolist() == [42] * threads.n_threads


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": 1}, r"PassOn: missing words \['out'\], unknown words \[\]"),
        ({"x": 1, "out": 2, "X": 3}, r"PassOn: missing words \[\], unknown words \['X'\]"),
    ],
)
def test_a_missing_or_unknown_word_is_refused_at_once(given: dict[str, int], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        pass_on(**given)
