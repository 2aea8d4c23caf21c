"""The threads of a rank: helpers that run programs together with the caller.

A helper is a Python thread inside compiled code, without the interpreter lock. Between programs it spins for a
short while (the next token comes soon); then it returns to Python and sleeps on a condition,
so that an idle rank costs no CPU.
"""

import threading
import time
from functools import partial

import numpy as np

from dllama_py.kernels.barrier import (
    JOB,
    JOB_HALT,
    JOB_LENGTH,
    JOB_PROGRAM,
    JOB_STAMPS,
    SPINS_BEFORE_YIELD,
    STATE_BYTES,
    atomic_add,
    atomic_load,
    pause,
    sched_yield,
)
from dllama_py.kernels.functions import compiled, declared
from dllama_py.kernels.program import Program, run_program
from dllama_py.kernels.timed import Recorder, run_timed_program
from dllama_py.kernels.vectors import get_i64, set_i64
from dllama_py.stamps import Recording

PATIENCE_S = 1.0
SPINS_BEFORE_SLEEP = 100_000  # about 3 ms
NO_STAMPS = 0


@compiled("intp(intp, intp, intp, intp)")
def serve_jobs(state: int, done: int, thread: int, threads: int) -> int:
    """A helper's work: runs jobs as they are posted; the number of the last one, when none came for a while."""
    spins = 0
    while spins < SPINS_BEFORE_SLEEP:
        if atomic_load(state + JOB) != done:
            done += 1
            if get_i64(state + JOB_STAMPS) == NO_STAMPS:
                program, length = get_i64(state + JOB_PROGRAM), get_i64(state + JOB_LENGTH)
                run_program(program, length, get_i64(state + JOB_HALT), state, thread, threads)
            else:
                run_timed_program(state, thread, threads)
            spins = 0
        pause()
        spins += 1
        if spins > SPINS_BEFORE_YIELD and spins % 64 == 0:
            sched_yield()
    return done


@compiled("void(intp, intp, intp, intp, intp)")
def post_job(state: int, program: int, n_instructions: int, halt: int, stamps: int) -> None:
    """Hands a program to the helpers; the one before has ended, as every program ends with a barrier."""
    set_i64(state + JOB_PROGRAM, program)
    set_i64(state + JOB_LENGTH, n_instructions)
    set_i64(state + JOB_HALT, halt)
    set_i64(state + JOB_STAMPS, stamps)
    atomic_add(state + JOB, 1)


@compiled("intp(intp)")
def last_job(state: int) -> int:
    """Number of the job posted last."""
    return atomic_load(state + JOB)


class Team:
    """`n_threads` threads, the caller among them, that run programs together. Close it to end the helpers.

    `recording`: where it is written down when each thread did what, if anywhere.
    """

    def __init__(self, n_threads: int, recording: Recording | None = None) -> None:
        self.n_threads = n_threads
        self.recording = recording
        self._recorder = None if recording is None else Recorder(recording)
        self.seconds = 0.0  # spent in programs so far
        self._words = np.zeros(STATE_BYTES // 8 + 8, np.int64)
        self._state = -(-self._words.ctypes.data // 64) * 64
        self._wake = threading.Condition()
        self._n_asleep = 0
        self._closed = False
        self._helpers: list[threading.Thread] = []

    def run(self, program: Program) -> None:
        """Runs a program to its end on all threads."""
        if not len(program):
            return  # without a barrier at its end the helpers might meet the next one too late
        if len(self._helpers) < self.n_threads - 1:
            self._start_helpers()
        started = time.perf_counter()
        stamps = NO_STAMPS if self._recorder is None else self._recorder.begin(program, self.n_threads)
        if self._helpers or stamps != NO_STAMPS:
            post_job(self._state, program.address, len(program), program.halt_address, stamps)
            if self._n_asleep:
                with self._wake:
                    self._wake.notify_all()
        if stamps == NO_STAMPS:
            run_program(program.address, len(program), program.halt_address, self._state, 0, self.n_threads)
        else:
            run_timed_program(self._state, 0, self.n_threads)
        self.seconds += time.perf_counter() - started

    def close(self) -> None:
        """Ends the helper threads; the team cannot run programs afterwards.

        After an interrupt in the middle of `run` a helper may wait at a barrier for ever; it is left to the end of the
        process.
        """
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        for helper in self._helpers:
            helper.join(PATIENCE_S)

    def _start_helpers(self) -> None:
        """Not before there is work, when their code is compiled: a process that ends while another of its threads
        compiles may crash.
        """
        declared(serve_jobs.__module__, serve_jobs.__name__).make()
        self._helpers = [threading.Thread(target=self._help, args=(t,), daemon=True) for t in range(1, self.n_threads)]
        for helper in self._helpers:
            helper.start()

    def _help(self, thread: int) -> None:
        done = 0
        while not self._closed:
            done = serve_jobs(self._state, done, thread, self.n_threads)
            with self._wake:
                self._n_asleep += 1  # counted before the look at the job, so that no wake-up is lost
                self._wake.wait_for(partial(self._is_wanted, done))
                self._n_asleep -= 1

    def _is_wanted(self, done: int) -> bool:
        return self._closed or last_job(self._state) != done
