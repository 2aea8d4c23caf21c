# python -m pytest tests/transport/test_silence.py
import time

import pytest

from dllama_py.errors import ClusterError, UsageError
from dllama_py.transport.silence import ANSWER, ASK, Signs, Silence, patience_of


class Clock:
    """Stands in for time.monotonic."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


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


class Mail:
    """What has come, and what was sent."""

    def __init__(self) -> None:
        self.come: list[tuple[int, int]] = []  # kind, source
        self.sent: list[tuple[int, int]] = []  # kind, to

    def put(self, kind: int, to: int) -> None:
        self.sent.append((kind, to))

    def take(self, kind: int, source: int | None) -> int | None:
        for sign in self.come:
            if sign[0] == kind and source in (None, sign[1]):
                self.come.remove(sign)
                return sign[1]
        return None


def test_everybody_who_asked_is_answered() -> None:
    mail = Mail()
    mail.come = [(ASK, 3), (ANSWER, 3), (ASK, 1)]
    Signs(mail, 60).answer()
    assert (mail.sent, mail.come) == ([(ANSWER, 3), (ANSWER, 1)], [(ANSWER, 3)])


def test_a_rank_that_never_waits_answers_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    mail = Mail()
    signs = Signs(mail, 60)
    sent = []
    for _ in range(4):
        mail.come.append((ASK, 2))
        clock.now += 0.3
        signs.look_now_and_then()
        sent.append(len(mail.sent))
    assert sent == [0, 2, 2, 4]


def test_a_rank_is_asked_once_and_missed_unless_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    mail = Mail()
    signs = Signs(mail, 1)
    for _ in range(2):
        for _ in range(3):
            clock.now += 0.3
            signs.miss(2, "pi")
        mail.come.append((ANSWER, 2))
        signs.miss(2, "pi")
    assert mail.sent == [(ASK, 2), (ASK, 2)]
    with pytest.raises(
        ClusterError, match="no sign of life from rank 2 on pi for 1 s: it is frozen or the link is cut"
    ):
        for _ in range(4):
            clock.now += 0.3
            signs.miss(2, "pi")


def test_patience_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    mail = Mail()
    for _ in range(100):
        clock.now += 0.5
        Signs(mail, 0).miss(2, "pi")
    assert mail.sent == []


def test_who_is_missed_at_any_time_is_asked_while_nobody_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a wait for it that begins does not excuse it."""
    clock = Clock(monkeypatch)
    mail = Mail()
    signs = Signs(mail, 1)
    signs.miss_always({2: "pi"})
    with pytest.raises(ClusterError, match="no sign of life from rank 2 on pi for 1 s"):
        for _ in range(4):
            clock.now += 0.3
            signs.look_round()
            signs.begin(2)
    assert mail.sent == [(ASK, 2)]
