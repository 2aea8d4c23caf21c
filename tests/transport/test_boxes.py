# python -m pytest tests/transport/test_boxes.py
"""Ranks of one host swap short vectors through memory, long ones and those of other hosts through MPI."""

from typing import Any

import numpy as np
import pytest

from dllama_py.kernels.program import Program
from dllama_py.kernels.swap import swap
from dllama_py.kernels.team import Team
from dllama_py.transport import boxes
from dllama_py.transport.boxes import add_boxes
from dllama_py.transport.comm import Comm
from dllama_py.transport.hosts import Host
from dllama_py.wire import MESSAGE_MOST_BYTES, Wire, WireWord
from tests.kernels.drive import words
from tests.support.threads import run_ranks

ROUNDS = 50
BLOCK_BYTES, BLOCK_FLOATS = 128, 32


def with_boxes(comm: Comm) -> Wire:
    add_boxes(comm.wire, comm)
    return comm.wire


def table(wire: Wire) -> Any:
    return wire.memory[-1]


def swapping(comm: Comm, wire: Wire, sent: np.ndarray, received: np.ndarray) -> Program:
    call = swap(
        n_rows=words(1),
        n_blocks=len(sent) // BLOCK_FLOATS,
        block_bytes=BLOCK_BYTES,
        sent=sent,
        sent_level=0,
        sent_path=0,
        received=received,
        received_level=0,
        received_path=0,
        partner=comm.rank ^ 1,
        wire=wire.words,
    )
    return Program([call], wire.words[WireWord.TROUBLE :])


def swap_often(comm: Comm, wire: Wire, n_blocks: int) -> None:
    sent, received = np.zeros((2, n_blocks * BLOCK_FLOATS), np.float32)
    program, team = swapping(comm, wire, sent, received), Team(1)
    for number in range(ROUNDS):
        sent[:] = np.arange(len(sent)) + 1000 * comm.rank + number
        team.run(program)
        np.testing.assert_array_equal(received, np.arange(len(received)) + 1000 * (comm.rank ^ 1) + number)
    team.close()


def test_short_vectors_go_through_memory_alone() -> None:
    def work(comm: Comm) -> int:
        wire = with_boxes(comm)
        wire.words[WireWord.ISEND] = 0  # to call it would be the end of the process
        swap_often(comm, wire, 9)
        return wire[WireWord.SENT_BYTES] + wire[WireWord.RECEIVED_BYTES]

    assert run_ranks(4, work) == [2 * 50 * 9 * 128] * 4


def test_boxes_are_made_once() -> None:
    def work(comm: Comm) -> bool:
        wire = with_boxes(comm)
        before = wire[WireWord.BOXES]
        swap_often(comm, wire, 2)
        swap_often(comm, with_boxes(comm), 2)
        return wire[WireWord.BOXES] == before

    assert run_ranks(2, work) == [True, True]


def test_long_vectors_go_through_mpi_and_do_not_disturb_the_order() -> None:
    n_most = MESSAGE_MOST_BYTES // BLOCK_BYTES

    def work(comm: Comm) -> None:
        wire = with_boxes(comm)
        for n_blocks in (n_most, n_most + 1, 3):
            swap_often(comm, wire, n_blocks)

    run_ranks(2, work)


def test_other_hosts_have_no_boxes() -> None:
    def work(comm: Comm) -> list[bool]:
        comm.hosts = tuple(map(Host.named, "aabb"))  # type: ignore[misc]
        wire = with_boxes(comm)
        swap_often(comm, wire, 2)
        return [bool(of_rank.all()) for of_rank in table(wire)]

    has, no = True, False
    assert run_ranks(4, work) == [[no, has, no, no], [has, no, no, no], [no, no, no, has], [no, no, has, no]]


def test_ranks_that_only_seem_to_be_on_one_host_go_without(monkeypatch: pytest.MonkeyPatch) -> None:
    told = boxes._told_to_all

    def deceived(comm: Comm, said: np.ndarray) -> np.ndarray:
        heard = told(comm, said)
        if heard.shape[1] == 3 and comm.rank == 0:
            heard[1, 2] += 1  # as if that process and file were others here
        return heard

    monkeypatch.setattr(boxes, "_told_to_all", deceived)

    def work(comm: Comm) -> bool:
        wire = with_boxes(comm)
        swap_often(comm, wire, 2)
        return bool(table(wire).any())

    assert run_ranks(2, work) == [False, False]


def refuse(name: str) -> int:
    raise PermissionError(f"{name}: not in this container")


@pytest.mark.parametrize("is_known", [False, True])
def test_systems_without_such_memory_go_without(monkeypatch: pytest.MonkeyPatch, is_known: bool) -> None:
    if is_known:
        monkeypatch.setattr("os.memfd_create", refuse)
    else:
        monkeypatch.delattr("os.memfd_create")

    def work(comm: Comm) -> bool:
        wire = with_boxes(comm)
        swap_often(comm, wire, 2)
        return bool(table(wire).any())

    assert run_ranks(2, work) == [False, False]


def test_a_message_of_another_length_is_trouble() -> None:
    def work(comm: Comm) -> list[int]:
        wire = with_boxes(comm)
        sent, received = np.zeros((2, (3 + comm.rank) * BLOCK_FLOATS), np.float32)
        team = Team(1)
        team.run(swapping(comm, wire, sent, received))
        team.close()
        return [wire[WireWord.TROUBLE], wire[WireWord.DETAIL], wire[WireWord.EXPECTED]]

    assert run_ranks(2, work) == [[3, 512, 384], [3, 384, 512]]
