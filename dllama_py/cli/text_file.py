"""A text that a user gives as a file."""

from pathlib import Path

from dllama_py.errors import InputError

MOST_BYTES = 256 << 20  # of a text; it is in memory several times


def read_text(path: Path) -> str:
    """A whole text file; InputError if it is none, or has no end."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise InputError(f"{path}: has more than {MOST_BYTES >> 20} MiB; give a part of it")
        return data.decode()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; give a text file") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is no UTF-8; give a text file in UTF-8") from None
