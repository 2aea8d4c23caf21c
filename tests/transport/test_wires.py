# python -m pytest tests/transport/test_wires.py
"""What happens while compiled code waits for a partner that never sends."""

import ctypes
import signal
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numba import cfunc

from dllama_py.kernels.program import Program
from dllama_py.kernels.swap import swap
from dllama_py.kernels.team import Team
from dllama_py.transport.wires import make_wire
from dllama_py.wire import Trouble, Wire, WireWord
from tests.kernels.drive import words

SIGNAL_AFTER_S = 0.05


@cfunc("int64(intp, intp, intp)")
def not_yet(request: int, flag: int, status: int) -> int:
    """Not there yet. Compiled, so that no signal is handled in it, as none is in MPI."""
    return 0


class Nobody:
    """MPI's functions where nobody answers; `code` is what sending returns."""

    def __init__(self, code: int = 0) -> None:
        word, number = ctypes.c_int64, ctypes.c_int
        post = ctypes.CFUNCTYPE(number, *[word] * 7)
        self.MPI_Isend = post(lambda *arguments: code)
        self.MPI_Irecv = post(lambda *arguments: 0)
        self.MPI_Test = self.MPI_Get_count = not_yet.ctypes


def swapping(library: object, look_round: Callable[[int], None]) -> tuple[Wire, Program]:
    def explain(wire: Wire) -> BaseException:
        return RuntimeError(f"code {wire[WireWord.DETAIL]} of rank {wire[WireWord.PARTNER]}")

    wire = make_wire(library, {}, look_round, explain)
    vector = np.zeros(64, np.float32)
    call = swap(
        n_rows=words(1),
        n_blocks=2,
        block_bytes=128,
        sent=vector,
        sent_level=0,
        sent_path=0,
        received=np.empty_like(vector),
        received_level=0,
        received_path=0,
        partner=3,
        wire=wire.words,
    )
    return wire, Program([call, call], wire.words[WireWord.TROUBLE :])


@pytest.fixture(params=[1, 3])
def team(request: pytest.FixtureRequest) -> Iterator[Team]:
    made = Team(request.param)
    yield made
    made.close()


def test_what_looking_round_raises_ends_the_program(team: Team) -> None:
    partners = []

    def look_round(partner: int) -> None:
        partners.append(partner)
        if len(partners) == 3:
            raise LookupError("gone")

    nobody = Nobody()
    wire, program = swapping(nobody, look_round)
    team.run(program)
    assert partners == [3, 3, 3]
    assert wire[WireWord.TROUBLE] == Trouble.GIVEN_UP
    assert repr(wire.explain()) == "LookupError('gone')"


def test_an_interrupt_while_compiled_code_waits_ends_the_program(team: Team) -> None:
    nobody = Nobody()
    wire, program = swapping(nobody, lambda partner: None)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, SIGNAL_AFTER_S)
        team.run(program)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert wire[WireWord.TROUBLE] == Trouble.GIVEN_UP
    assert isinstance(wire.explain(), KeyboardInterrupt)


def test_a_call_that_fails_ends_the_program(team: Team) -> None:
    nobody = Nobody(code=15)
    wire, program = swapping(nobody, lambda partner: None)
    team.run(program)
    assert wire[WireWord.TROUBLE] == Trouble.FAILED
    assert repr(wire.explain()) == "RuntimeError('code 15 of rank 3')"
