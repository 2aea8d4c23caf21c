"""The one folder outside a project where this program keeps things: compiled kernels, the last fetched model."""

import os
from pathlib import Path

from dllama_py.errors import UsageError


def home_folder() -> Path:
    """`$DLLAMA_HOME`, else `~/.cache/dllama-py`; not created here."""
    given = os.environ.get("DLLAMA_HOME")
    return expanded(Path(given)) if given else Path.home() / ".cache" / "dllama-py"


def expanded(path: Path) -> Path:
    """With the user's own folder for `~`, which a shell leaves as it is in `--model=~/x` and some files of settings do.
    UsageError for a user whom the system does not know."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise UsageError(f"{path}: the system knows no such user; give the whole path") from None
