# python -m pytest tests/cli/test_chat_commands.py
"""What commands of a chat say, at a terminal of 80 columns."""

from unittest.mock import Mock

import pytest

from dllama_py.cli.chat_commands import HELP, Talk, obeyed


def test_the_help_fits_80_columns() -> None:
    assert [line for line in HELP.splitlines() if len(line) >= 80] == []


@pytest.mark.parametrize(("n_dropped", "said"), [(0, "no turn forgotten"), (2, "2 of the oldest turns forgotten")])
def test_drop_says_whether_anything_was_forgotten(n_dropped: int, said: str) -> None:
    talk = Talk(Mock(), Mock(), "")
    talk.dialogue.drop_oldest.return_value = n_dropped  # type: ignore[attr-defined]
    assert obeyed("/drop", talk)
    assert talk.face.say.call_args.args[0].startswith(said)  # type: ignore[attr-defined]
