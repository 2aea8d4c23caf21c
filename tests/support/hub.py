"""A hub on this machine that speaks the protocol of the real one, and can fail in the ways the real one does."""

import hashlib
import json
import re
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

from dllama_py.cluster.remote import RemoteFile

COMMIT = "a" * 40
LARGE_BYTES = 1000  # from here on a file has a SHA-256, as with git-lfs


class NoHub:
    """Fulfils `cluster.remote.Repositories` where none may be asked."""

    def list_files(self, repository: str) -> tuple[RemoteFile, ...]:
        raise AssertionError(f"the hub was asked for {repository}")

    def read_range(self, file: RemoteFile, start: int, stop: int) -> Generator[bytes]:
        raise AssertionError(f"the hub was asked for {file.name}")


@dataclass
class FakeHub:
    """What the server holds, how it misbehaves, and what it was asked for."""

    repositories: dict[str, dict[str, bytes]]
    url: str = ""
    break_after: int | None = None  # bytes of a body, then the connection is closed
    breaks_left: int = 1 << 30
    gated: bool = False
    status_of_bodies: int | None = None
    retry_after: str | None = None
    busy_left: int = 0  # answers with 503 before the first good one
    says_sha256: str | None = None  # instead of the true ones
    says_bytes: int | None = None
    says_instead: bytes | None = None  # of a list
    ignores_ranges: bool = False
    bodies_lie_elsewhere: bool = False  # the hub answers with the place, under another host name
    bytes_per_s: float | None = None
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # path and Range
    tokens: list[tuple[str, str | None]] = field(default_factory=list)  # path and Authorization
    lock: threading.Lock = field(default_factory=threading.Lock)

    def bodies_asked(self) -> list[str]:
        return [path.rsplit("/", 1)[1] for path, _ in self.asked if "/resolve/" in path]


@contextmanager
def running(hub: FakeHub) -> Iterator[FakeHub]:
    """The hub on a free port of this machine."""
    handler = type("Bound", (_Handler,), {"hub": hub})
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@cache
def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that go away are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        path = unquote(self.path.split("?")[0])
        with self.hub.lock:
            self.hub.asked.append((path, self.headers.get("Range")))
            self.hub.tokens.append((path, self.headers.get("Authorization")))
        listing = re.fullmatch(r"/api/models/([^/]+/[^/]+)", path)
        body = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        stored = re.fullmatch(r"/elsewhere/([^/]+/[^/]+)/(.+)", path)
        if listing:
            self._list(listing[1])
        elif body and self.hub.bodies_lie_elsewhere:
            place = f"http://localhost:{self.server.server_address[1]}/elsewhere/{body[1]}/{body[3]}"
            self._answer(302, b"", {"Location": place, "X-Repo-Commit": COMMIT})
        elif body:
            self._send(body[1], body[3])
        elif stored:
            self._send(stored[1], stored[2])
        else:
            self._refuse(404, "NotFound")

    def _list(self, repository: str) -> None:
        files = self.hub.repositories.get(repository)
        if self.hub.says_instead is not None:
            self._answer(200, self.hub.says_instead, {"Content-Type": "application/json"})
            return
        if files is None:
            self._refuse(401, "RepoNotFound")
            return
        with_sizes = "blobs=" in self.path
        siblings = [
            self._entry(name, content) if with_sizes else {"rfilename": name} for name, content in files.items()
        ]
        facts = {"id": repository, "modelId": repository, "sha": COMMIT, "private": False, "siblings": siblings}
        self._answer(200, json.dumps(facts).encode(), {"Content-Type": "application/json"})

    def _entry(self, name: str, content: bytes) -> dict[str, object]:
        sha1 = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        n_bytes = self.hub.says_bytes or len(content)
        entry: dict[str, object] = {"rfilename": name, "size": n_bytes, "blobId": sha1}
        if len(content) >= LARGE_BYTES:
            sha256 = self.hub.says_sha256 or _sha256(content)
            entry["lfs"] = {"size": n_bytes, "sha256": sha256, "pointerSize": 134}
        return entry

    def _send(self, repository: str, name: str) -> None:
        content = self.hub.repositories.get(repository, {}).get(name)
        with self.hub.lock:
            busy = self.hub.busy_left > 0
            self.hub.busy_left -= busy
        if busy:
            self._refuse(503, "")
        elif self.hub.gated:
            self._refuse(401, "GatedRepo")
        elif self.hub.status_of_bodies:
            self._refuse(self.hub.status_of_bodies, "")
        elif content is None:
            self._refuse(404, "EntryNotFound")
        else:
            self._send_range(content)

    def _send_range(self, content: bytes) -> None:
        etag = _sha256(content)
        headers = {"ETag": f'"{etag}"', "X-Linked-Etag": f'"{etag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if wanted is None or self.hub.ignores_ranges:
            self._answer(200, content, headers)
            return
        start, last = int(wanted[1]), min(int(wanted[2]), len(content) - 1)
        if start >= len(content):
            self._answer(416, b"", {"Content-Range": f"bytes */{len(content)}"})
            return
        headers["Content-Range"] = f"bytes {start}-{last}/{len(content)}"
        self._answer(206, content[start : last + 1], headers)

    def _answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        is_body = status in (200, 206) and "ETag" in headers
        with self.hub.lock:
            breaks = is_body and self.hub.break_after is not None and self.hub.breaks_left > 0
            self.hub.breaks_left -= breaks
        if breaks:
            self.wfile.write(content[: self.hub.break_after])
            self.close_connection = True
        elif is_body and self.hub.bytes_per_s:
            self._trickle(content, self.hub.bytes_per_s)
        else:
            self.wfile.write(content)

    def _trickle(self, content: bytes, bytes_per_s: float) -> None:
        step = max(int(bytes_per_s / 50), 1)
        for start in range(0, len(content), step):
            try:
                self.wfile.write(content[start : start + step])
            except OSError:
                return
            time.sleep(0.02)

    def _refuse(self, status: int, code: str) -> None:
        headers = {"X-Error-Code": code} if code else {}
        if self.hub.retry_after is not None:
            headers["Retry-After"] = self.hub.retry_after
        self._answer(status, b"{}", headers)
