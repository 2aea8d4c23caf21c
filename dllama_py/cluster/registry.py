"""What is remembered between runs on this machine: the model fetched last. One small JSON file."""

import json
import os
from pathlib import Path

from dllama_py.home import home_folder


def last_model() -> Path | None:
    """The file fetched last; None if none was, or it is gone."""
    try:
        path = Path(json.loads(_file().read_text())["last_model"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return path if path.exists() else None


def remember_last_model(path: Path) -> None:
    """Later runs without --model take this file."""
    file = _file()
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f"{file.name}.{os.getpid()}")
    part.write_text(json.dumps({"last_model": str(path.resolve())}) + "\n")
    part.replace(file)


def _file() -> Path:
    return home_folder() / "registry.json"
