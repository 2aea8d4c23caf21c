# python -m pytest tests/cluster/test_rank_state.py
import os
import signal
import time
from collections.abc import Callable

import pytest

from dllama_py.cluster.rank_state import Change, await_change, handle_of, how_it_ended, is_stopped
from dllama_py.transport.watched import JOINED, PARTED


def child(work: Callable[[], None]) -> int:
    """A process that does it and ends."""
    process = os.fork()
    if process == 0:
        work()
        os._exit(0)
    return process


@pytest.mark.parametrize(
    ("work", "code"),
    [
        (lambda: os._exit(0), 0),
        (lambda: os._exit(7), 7),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), -9),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), -15),
    ],
)
def test_how_a_process_ended_can_be_read_before_its_parent_asks(work: Callable[[], None], code: int) -> None:
    process = child(work)
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    assert how_it_ended(process, None) == code
    handle = handle_of(process)
    os.waitpid(process, 0)
    assert how_it_ended(process, handle) in (code, None)  # later not every Linux tells
    assert how_it_ended(process, None) is None


def test_a_rank_that_is_stopped_is_missed_outside_the_world_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLLAMA_PATIENCE_S", "1")
    monkeypatch.setattr("dllama_py.cluster.rank_state.LOOK_S", 0.05)
    process = child(lambda: os.kill(os.getpid(), signal.SIGSTOP))
    listening, telling = os.pipe()
    while not is_stopped(process):
        time.sleep(0.01)
    assert await_change(process, handle_of(process), listening) is Change.FROZEN
    os.write(telling, JOINED + PARTED)
    assert await_change(process, handle_of(process), listening, until_parted=True) is Change.PARTED
    os.kill(process, signal.SIGCONT)
    assert await_change(process, handle_of(process), listening) is Change.ENDED
    os.waitpid(process, 0)
    os.close(telling)
    os.close(listening)
