"""The one folder outside a project where this program keeps things: compiled kernels, the last fetched model."""

import os
from pathlib import Path


def home_folder() -> Path:
    """`$DLLAMA_HOME`, else `~/.cache/dllama-py`; not created here."""
    given = os.environ.get("DLLAMA_HOME")
    return Path(given) if given else Path.home() / ".cache" / "dllama-py"
