# python -m pytest tests/kernels/test_timed.py
"""Stamps of instructions: in order, of every thread, by the clock of Python."""

import gc
import time

import numpy as np
import pytest

from dllama_py.kernels.memory import read_stream
from dllama_py.kernels.program import Program
from dllama_py.kernels.team import Team
from dllama_py.kernels.timed import BLOCK_WORDS
from dllama_py.stamps import Recording
from tests.kernels.test_team import count


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_every_thread_stamps_every_instruction_in_order(n_threads: int) -> None:
    counts, recording = np.zeros((n_threads, 2), np.int64), Recording()
    team = Team(n_threads, recording)
    before = time.perf_counter_ns()
    for _ in range(3):
        team.run(Program([count(counts=counts)] * 5))
    after = time.perf_counter_ns()
    team.close()
    assert counts[:, 0].tolist() == [15] * n_threads
    assert [run.stamps.shape for run in recording.runs] == [(n_threads, 5, 2)] * 3
    for run in recording.runs:
        begun, ended = run.stamps[..., 0], run.stamps[..., 1]
        assert (begun <= ended).all()
        assert (ended.max(axis=0)[:-1] <= begun.min(axis=0)[1:]).all()  # all of one before any of the next: barriers
    first, last = recording.runs[0].stamps, recording.runs[-1].stamps
    assert before <= first.min() and last.max() <= after


def test_a_program_that_runs_again_is_described_once() -> None:
    recording = Recording()
    team = Team(1, recording)
    memory, found = np.ones(4096, np.uint8), np.zeros((1, 16), np.int32)
    stream = Program([read_stream(x=memory, n_bytes=4096, out=found)])
    other = Program([count(counts=np.zeros((1, 2), np.int64))] * 2)
    for program in (stream, other, stream):
        team.run(program)
    assert [run.program for run in recording.runs] == [0, 1, 0]
    assert [[work.kernel for work in works] for works in recording.programs] == [["read_stream"], ["count", "count"]]
    assert [recording.programs[0][0].bytes_read(run.counts) for run in recording.runs if run.program == 0] == [
        4096,
        4096,
    ]


def test_what_is_recorded_holds_no_program() -> None:
    recording = Recording()
    team = Team(1, recording)
    memory = np.ones(1 << 20, np.uint8)
    team.run(Program([read_stream(x=memory, n_bytes=memory.nbytes, out=np.zeros((1, 16), np.int32))]))
    gc.collect()
    assert not [held for held in gc.get_referrers(memory) if isinstance(held, tuple)]


def test_stamps_outlast_the_memory_that_was_reserved_first() -> None:
    counts, recording = np.zeros((1, 2), np.int64), Recording()
    team = Team(1, recording)
    program = Program([count(counts=counts)] * 1000)
    n_runs = BLOCK_WORDS // 2000 + 2
    for _ in range(n_runs):
        team.run(program)
    begun = np.concatenate([run.stamps[0, :, 0] for run in recording.runs])
    assert begun.size == 1000 * n_runs
    assert (np.diff(begun) >= 0).all() and begun[0] > 0
