"""Writing a file that is there whole or not at all. Knows nothing of what is in it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from dllama_py.errors import UsageError


@contextmanager
def complete_or_gone(out: Path, total_bytes: int) -> Iterator[BinaryIO]:
    """A file that takes its name when the block ends well and disappears when it does not.

    UsageError where the disk has less room than total_bytes or refuses it.
    """
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    try:
        free_bytes = shutil.disk_usage(out.parent).free
        if free_bytes < total_bytes:
            raise UsageError(
                f"{out}: needs {total_bytes} bytes, the disk has {free_bytes} left; free some or use --output"
            )
        with partial.open("wb") as file:
            yield file
        os.replace(partial, out)
    except OSError as error:
        raise UsageError(f"{out}: cannot be written: {error.strerror or error}; choose another --output") from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
