"""What can go wrong, by whose fault it is; the exit code of the program follows from the class.

    DllamaError
    ├── UsageError    2   the command line or a setting cannot work
    ├── InputError    2   a file is not what it should be
    └── ClusterError  3   a node, a link or the environment failed

A message says what was found, what was expected and what to do, in one line.
"""

import difflib
import errno
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
OUT_OF_MEMORY = "out of memory; use more ranks, or a smaller --max-seq-len or --chunk"


class DllamaError(Exception):
    """Any failure that is explained to the user in one line, without a traceback.

    What breaks a line or commands a terminal becomes a space: messages quote files, and libraries that quote them.
    """

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(_CONTROLS.sub(" ", message))


class UsageError(DllamaError):
    """The request cannot be carried out as given; nothing was read or written."""

    exit_code = 2


class InputError(DllamaError):
    """A file is damaged, unsupported or inconsistent."""

    exit_code = 2


class ClusterError(DllamaError):
    """A node died, does not answer, or does not match the others."""

    exit_code = 3


@contextmanager
def machine_explained() -> Iterator[None]:
    """Turns what a machine refuses into one line: a file that it names is an InputError, all else (memory, the output,
    a library) a ClusterError.

    BrokenPipeError passes: whoever reads the output has had enough of it.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except MemoryError as error:
        raise ClusterError(OUT_OF_MEMORY + (f" ({error})" if error.args else "")) from error
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise ClusterError(OUT_OF_MEMORY) from error
        if error.filename:
            raise InputError(f"{error.filename}: {error.strerror}") from error
        raise ClusterError(f"input or output: {error.strerror or error}") from error


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """The end of a message about a name that does not exist: `; did you mean ...?`, or nothing if none is close."""
    close = difflib.get_close_matches(word.lower(), list(names), n=1)
    return f"; did you mean {close[0]}?" if close else ""
