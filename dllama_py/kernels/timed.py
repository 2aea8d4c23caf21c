"""Programs under a stop watch: when each thread began and ended each instruction.

A team that is told to record runs `run_timed_program` instead of `run_program`; otherwise nothing of this costs time.
What the stamps mean is found out in profiling/.
"""

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from dllama_py.kernels.barrier import JOB_HALT, JOB_LENGTH, JOB_PROGRAM, JOB_STAMPS, meet
from dllama_py.kernels.clock import now_ns
from dllama_py.kernels.functions import compiled
from dllama_py.kernels.program import INSTRUCTION_BYTES, Program, call_kernel
from dllama_py.kernels.vectors import get_i64, set_i64
from dllama_py.kernels.work import Counter, work_of
from dllama_py.stamps import Recording, Run

STAMP_BYTES = 16  # of an instruction: beginning and end, int64 nanoseconds
BLOCK_WORDS = 1 << 17  # of stamps taken at once, 1 MB: tens of tokens


@compiled("void(intp, intp, intp)")
def run_timed_program(state: int, thread: int, threads: int) -> None:
    """As run_program, of the job that was posted. Stamps are int64 [threads, instructions, 2]; the wait at the barrier
    comes after the end.
    """
    program, n_instructions = get_i64(state + JOB_PROGRAM), get_i64(state + JOB_LENGTH)
    halt = get_i64(state + JOB_HALT)
    at = get_i64(state + JOB_STAMPS) + thread * n_instructions * STAMP_BYTES
    for number in range(n_instructions):
        instruction = program + number * INSTRUCTION_BYTES
        began = now_ns(at)
        call_kernel(get_i64(instruction), instruction + 16, thread, threads)
        ended = now_ns(at)
        set_i64(at, began)
        set_i64(at + 8, ended)
        if get_i64(instruction + 8) != 0 and meet(state, threads, halt):
            return
        at += STAMP_BYTES


class Recorder:
    """Writes down what a team's programs do."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._known: WeakKeyDictionary[Program, tuple[int, tuple[Counter, ...]]] = WeakKeyDictionary()
        self._block = _block(BLOCK_WORDS)
        self._used = 0

    def begin(self, program: Program, n_threads: int) -> int:
        """Makes room for one more run; the address of its stamps. The step's rows are already set."""
        if program not in self._known:
            works, counters = work_of(program.instructions)
            self._known[program] = len(self._recording.programs), counters
            self._recording.programs.append(works)
        number, counters = self._known[program]
        stamps = self._reserve(n_threads * len(program) * 2).reshape(n_threads, len(program), 2)
        self._recording.runs.append(Run(number, tuple(counter() for counter in counters), stamps))
        return int(stamps.ctypes.data)

    def _reserve(self, n_words: int) -> NDArray[np.int64]:
        if self._used + n_words > self._block.size:
            self._block, self._used = _block(max(BLOCK_WORDS, n_words)), 0
        self._used += n_words
        return self._block[self._used - n_words : self._used]


def _block(n_words: int) -> NDArray[np.int64]:
    """Memory whose pages are there already, so that stamping does not wait for them."""
    return np.full(n_words, -1, np.int64)
