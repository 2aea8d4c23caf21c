# python -m pytest tests/test_errors.py
import pytest

from dllama_py.errors import ClusterError, DllamaError, InputError, UsageError


@pytest.mark.parametrize("kind", [UsageError, InputError, ClusterError])
def test_a_message_is_one_line_whatever_it_quotes(kind: type[DllamaError]) -> None:
    assert str(kind("version '\n' at\r\nline 1")) == "version ' ' at line 1"
    assert str(kind("red \x1b[31m and \u2028\x85 more")) == "red  [31m and   more"


def test_other_text_stays() -> None:
    assert str(UsageError("größer als 3 – “so”  \N{SNOWMAN}")) == "größer als 3 – “so”  \N{SNOWMAN}"
