# python -m pytest tests/transport/test_silence.py
import time

import pytest

from dllama_py.errors import UsageError
from dllama_py.transport.silence import Silence, patience_of


def test_time_in_which_the_process_stood_still_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 100.25, 5000.0, 5000.25])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    silence = Silence()
    assert [silence.look(), silence.look(), silence.look()] == [0.25, 0.75, 1.0]


def test_a_word_of_the_partner_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 100.5, 100.75])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    silence = Silence()
    silence.look()
    silence.restart()
    assert silence.look() == 0.25


def test_patience_is_a_wish_of_the_environment() -> None:
    assert patience_of({}) == 60
    assert patience_of({"DLLAMA_PATIENCE_S": "2.5"}) == 2.5
    assert patience_of({"DLLAMA_PATIENCE_S": "0"}) == 0


@pytest.mark.parametrize("wish", ["soon", "-1", "nan"])
def test_a_patience_that_is_no_time_is_refused(wish: str) -> None:
    with pytest.raises(UsageError, match=f"DLLAMA_PATIENCE_S is '{wish}'; expected a number of seconds"):
        patience_of({"DLLAMA_PATIENCE_S": wish})
