"""Files over the network into one file of this disk: in parallel ranges, resumed after a break, checked, joined.

Parts are written where they belong in the joined file while they arrive, so the disk never holds them twice. Until all
is checked the file is called NAME.part, with a journal beside it. It does not know what is at the other end.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dllama_py.cluster.journal import Journal
from dllama_py.cluster.remote import ReadRange, RemoteFile
from dllama_py.cluster.transfer import Transfer
from dllama_py.errors import ClusterError, InputError
from dllama_py.progress import Progress, Work
from dllama_py.sizes import size

PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Target:
    """A file to make of one or several remote files, one behind the other."""

    path: Path
    files: tuple[RemoteFile, ...]

    @property
    def n_bytes(self) -> int:
        return sum(file.n_bytes for file in self.files)

    @property
    def part(self) -> Path:
        return self.path.with_name(self.path.name + ".part")

    @property
    def journal_path(self) -> Path:
        return self.path.with_name(self.path.name + ".part.json")


def download_all(targets: Sequence[Target], read: ReadRange, progress: Progress) -> None:
    """Make every target that is not there yet. ClusterError before the first byte where the disk is too small.

    What has come when it fails or is interrupted is kept, and the next call goes on from there.
    """
    missing = [target for target in targets if not _is_there(target, progress)]
    _check_disk(missing)
    for target in missing:
        _download(target, read, progress)


def _is_there(target: Target, progress: Progress) -> bool:
    """Whether the finished file has the right bytes, whoever brought it here."""
    if not target.path.is_file() or target.path.stat().st_size != target.n_bytes:
        return False
    return not _wrong_files(target.path, target.files, progress)


def _check_disk(targets: Sequence[Target]) -> None:
    if not targets:
        return
    place = os.statvfs(targets[0].path.parent)
    free = place.f_bavail * place.f_frsize
    there = sum(target.part.stat().st_blocks * 512 for target in targets if target.part.exists())
    needed = sum(target.n_bytes for target in targets) - there
    if needed > free:
        raise ClusterError(
            f"{targets[0].path.parent} has {size(free)} of free disk, {size(needed)} are needed: "
            "make room, or move the folder and leave a link in its place"
        )


def _download(target: Target, read: ReadRange, progress: Progress) -> None:
    journal = Journal(target.journal_path, target.files)
    if target.part.exists() and target.part.stat().st_size == target.n_bytes:
        journal.recall()
    with target.part.open("r+b" if target.part.exists() else "w+b") as out:
        out.truncate(target.n_bytes)
        journal.save()
        Transfer(journal, target.path.name, out.fileno(), read, progress).run()
    wrong = _wrong_files(target.part, target.files, progress)
    for file in wrong:
        journal.forget(file)
    if wrong:
        journal.save()
        raise InputError(
            f"{wrong[0].name}: what came from {wrong[0].repository} does not have the hash {wrong[0].expected[:16]}... "
            "that the hub lists: damaged on the way or there; the next try fetches this file anew"
        )
    target.part.replace(target.path)
    target.journal_path.unlink()


def _wrong_files(path: Path, files: Sequence[RemoteFile], progress: Progress) -> list[RemoteFile]:
    """Those of the files, joined in `path`, whose hash is not the expected one."""
    wrong = []
    work = Work(f"checking {path.name.removesuffix('.part')}", sum(file.n_bytes for file in files))
    with path.open("rb") as joined:
        for file in files:
            hasher, rest = file.hasher(), file.n_bytes
            while piece := joined.read(min(PIECE_BYTES, rest)):
                hasher.update(piece)
                rest -= len(piece)
                progress(work, joined.tell(), file.name if len(files) > 1 else "")
            if hasher.hexdigest() != file.expected:
                wrong.append(file)
    return wrong
