"""Writing a file that is there whole or not at all. Knows nothing of what is in it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from dllama_py.errors import UsageError


@contextmanager
def complete_or_gone(out: Path, total_bytes: int, option: str = "--output") -> Iterator[BinaryIO]:
    """A file that takes its name when the block ends well and disappears when it does not. A device or a pipe is
    written to as it is.

    UsageError where the disk has less room than total_bytes or refuses it; `option` is what named the file.
    """
    with _explained(out, option):
        if _is_special(out):
            with out.open("wb") as file:
                yield file
            return
        target = Path(os.path.realpath(out))  # a link stays one
        free_bytes = shutil.disk_usage(target.parent).free
        if free_bytes < total_bytes:
            raise UsageError(
                f"{out}: needs {total_bytes} bytes, the disk has {free_bytes} left; free some or use {option}"
            )
        with _renamed_at_the_end(target) as file:
            yield file


def refuse_unwritable(out: Path, option: str) -> None:
    """UsageError, before the work that makes the content, where `complete_or_gone` could not begin."""
    with _explained(out, option):
        if _is_special(out):
            out.open("wb").close()
        else:
            tempfile.TemporaryFile(dir=os.path.dirname(os.path.realpath(out))).close()


@contextmanager
def _renamed_at_the_end(target: Path) -> Iterator[BinaryIO]:
    """Where the system can, it has no name before, so that it is gone even if the process is killed."""
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    nameless = _nameless(target.parent)
    try:
        with partial.open("wb") if nameless is None else open(nameless, "wb") as file:
            yield file
            if nameless is not None:
                file.flush()
                os.link(f"/proc/self/fd/{nameless}", partial, src_dir_fd=nameless)  # without one it links the link
        os.replace(partial, target)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _nameless(folder: Path) -> int | None:
    """A file there, to be written; None where there is no such thing, as on some network file systems."""
    if not hasattr(os, "O_TMPFILE"):
        return None
    try:
        return os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o666)
    except OSError:
        return None


@contextmanager
def _explained(out: Path, option: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{out}: cannot be written: {error.strerror or error}; choose another {option}") from None


def _is_special(out: Path) -> bool:
    return out.exists() and not out.is_file()
