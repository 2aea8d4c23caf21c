"""The models fetched to this machine, by name, and which of them is the default. One small JSON file."""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dllama_py.cluster import catalogue
from dllama_py.errors import UsageError, did_you_mean
from dllama_py.home import home_folder

_SPLIT_PART = "-00001-of-"  # a split GGUF is named by its first part
_MODEL_FILES = ("*.gguf", "*.m")


@dataclass(frozen=True, slots=True)
class RegisteredModel:
    """`source` is what it was fetched as: a name of the catalogue, or OWNER/REPO[:FILE]. `path`: a file or a folder."""

    name: str
    source: str
    path: Path
    folder: Path
    files: tuple[Path, ...]  # in the folder, all that was fetched for it


def registered_models() -> list[RegisteredModel]:
    """Those that are still on the disk, in the order in which they were fetched."""
    return [model for model in map(_model, _read().get("models", {}).items()) if model and model.path.exists()]


def last_model() -> Path | None:
    """The model fetched last, which is the default; None if none was, or it is gone."""
    try:
        path = Path(_read()["last_model"])
    except (KeyError, TypeError):
        return None
    return path if path.exists() else None


def remember(model: RegisteredModel) -> None:
    """It can be named from now on, and is the default. OSError where the registry cannot be written."""
    path = str(model.path.absolute())
    with _changed() as facts:
        facts["models"].pop(path, None)  # the newest is the last
        facts["models"][path] = {
            "name": model.name,
            "source": model.source,
            "folder": str(model.folder.absolute()),
            "files": [str(file.absolute()) for file in model.files],
        }
        facts["last_model"] = path


def forget(model: RegisteredModel) -> None:
    """The default is then the model fetched before it, if there is one."""
    with _changed() as facts:
        facts["models"].pop(str(model.path), None)
        if facts.get("last_model") == str(model.path):
            facts["last_model"] = next(reversed(facts["models"]), None)


def find_model(given: Path) -> Path:
    """Where a model is that was given as a path, as a folder that holds one model file, or by a fetched model's name.

    UsageError if a folder holds several, or if it is neither a path nor the name of one model. What is no plain name
    comes back as it is: who opens it says what is wrong with it.
    """
    if given.is_dir() and not (given / "config.json").exists():
        return _only_model(given)
    if given.exists() or given.suffix in (".gguf", ".m", ".t", ".json") or given.is_absolute():
        return given
    return _chosen(str(given), registered_models())


def fetched_path(name: Path) -> Path | None:
    """Of the fetched model of that name; None if it is a path that exists, or not the name of one model."""
    found = [] if name.exists() else named(registered_models(), str(name))
    return found[0].path if len(found) == 1 else None


def named(models: Iterable[RegisteredModel], name: str) -> list[RegisteredModel]:
    """Those of exactly this name, else those whose name begins with it: qwen3_0.6b is also qwen3_0.6b_q40.

    Case does not matter, and dashes are underscores.
    """
    wanted = _plain(name)
    words = {model: [_plain(model.name), _plain(model.source)] for model in models}
    return [model for model in words if wanted in words[model]] or [
        model for model in words if any(word.startswith(f"{wanted}_") for word in words[model])
    ]


def several(name: str, found: list[RegisteredModel]) -> str:
    """What is said of a name that fits more than one."""
    return f"{name}: several fetched models have that name; name one: {_listed(found)}"


def _chosen(name: str, models: list[RegisteredModel]) -> Path:
    found = named(models, name)
    if len(found) == 1:
        return found[0].path
    if found:
        raise UsageError(several(name, found))
    if os.sep in name:
        return Path(name)
    if known := catalogue.known(name):
        raise UsageError(f"{name}: not fetched yet; fetch it with: python launch.py {known.name}")
    names = [*(model.name for model in models), *(model.name for model in catalogue.CATALOGUE)]
    raise UsageError(
        f"{name}: no file or folder, and no fetched model (here: {_listed(models) or 'none'})"
        f"{did_you_mean(_plain(name), names)}"
    )


def _only_model(folder: Path) -> Path:
    """The one model file of a folder; the folder itself if it has none."""
    files = [path for kind in _MODEL_FILES for path in sorted(folder.glob(kind)) if _begins_a_model(path)]
    if len(files) > 1:
        raise UsageError(f"{folder}: holds {len(files)} models; name one: {', '.join(map(str, files))}")
    return files[0] if files else folder


def _begins_a_model(path: Path) -> bool:
    """Not the later parts of a split GGUF."""
    return "-of-" not in path.stem or _SPLIT_PART in path.stem


def _listed(models: list[RegisteredModel]) -> str:
    names = [model.name for model in models]
    return ", ".join(model.name if names.count(model.name) == 1 else model.source for model in models)


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


def _model(item: tuple[str, Any]) -> RegisteredModel | None:
    """None for an entry that somebody has spoilt: its files are those that `launch.py remove` deletes."""
    path, facts = item
    try:
        texts = (facts["name"], facts["source"], facts["folder"], *facts["files"])
        if not isinstance(facts["files"], list) or not all(
            isinstance(text, str) and "\0" not in text for text in texts
        ):
            return None
        name, source, folder, *files = texts
    except (KeyError, TypeError):
        return None
    return RegisteredModel(name, source, Path(path), Path(folder), tuple(map(Path, files)))


def _read() -> dict[str, Any]:
    """What is known; a damaged file is an empty one, since all can be fetched again."""
    try:
        facts = json.loads(_file().read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) and isinstance(facts.get("models", {}), dict) else {}


@contextmanager
def _changed() -> Iterator[dict[str, Any]]:
    """The facts, to be changed inside this context; another process that changes them waits."""
    file = _file()
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        facts = {"models": {}} | _read()
        yield facts
        part = file.with_name(f"{file.name}.{os.getpid()}")
        try:
            part.write_text(json.dumps(facts, indent=1) + "\n")
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)


def _file() -> Path:
    return home_folder() / "registry.json"
