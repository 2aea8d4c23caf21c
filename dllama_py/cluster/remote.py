"""What is known of a file before it is fetched: where it lies, how long it is, which hash it must have."""

import hashlib
import os
import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from dllama_py.errors import UsageError

PUBLIC_HUB = "https://huggingface.co"


def chosen_endpoint() -> str:
    """The hub that HF_ENDPOINT names, else the public one. UsageError if it can be none."""
    given = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/")
    try:
        parts = urlsplit(given)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        works = not given or (is_address and not parts.query and not parts.fragment)
    except ValueError:
        works = False
    if not works:
        raise UsageError(
            f"HF_ENDPOINT is {without_password(given)!r}; expected https://HOST or http://HOST:PORT, or nothing"
        )
    return given or PUBLIC_HUB


def without_password(text: str) -> str:
    """For messages: what stands in addresses before an @ is hidden."""
    return re.sub(r"//\S*@", "//***@", text)


class Hasher(Protocol):
    """What hashlib gives."""

    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of one commit of a repository."""

    repository: str
    commit: str
    name: str  # with folders, as in the repository
    n_bytes: int
    sha256: str | None  # of large files; small ones have the hash that git gives them
    git_sha1: str

    def hasher(self) -> Hasher:
        """A new hash of the kind this file is known by."""
        return hashlib.sha256() if self.sha256 else hashlib.sha1(b"blob %d\0" % self.n_bytes)

    @property
    def expected(self) -> str:
        """The hexadecimal digest that `hasher` must arrive at."""
        return self.sha256 or self.git_sha1


class BrokenOffError(Exception):
    """A connection ended early or was refused for the moment; another try, after `wait_s`, may get the rest."""

    def __init__(self, why: str, wait_s: float = 0.0) -> None:
        super().__init__(why)
        self.wait_s = wait_s


class ReadRange(Protocol):
    """Bytes [start, stop) of a file, in pieces, over one connection.

    BrokenOffError when the rest has to be asked for again, a DllamaError when that is of no use.
    """

    def __call__(self, file: RemoteFile, start: int, stop: int, /) -> Generator[bytes]: ...


class Repositories(Protocol):
    """Where repositories of files are."""

    def list_files(self, repository: str, /) -> tuple[RemoteFile, ...]:
        """All files of the newest commit. A DllamaError where that cannot be had."""

    def read_range(self, file: RemoteFile, start: int, stop: int, /) -> Generator[bytes]:
        """As `ReadRange`."""
