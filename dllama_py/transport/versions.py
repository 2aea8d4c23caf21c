"""Whether all ranks run the same programs: other versions may send other messages or compute other bits."""

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

import dllama_py
from dllama_py.errors import ClusterError
from dllama_py.transport.comm import Comm
from dllama_py.transport.failure import agreed
from dllama_py.transport.hosts import Host

MESSAGE_BYTES = 512
LIBRARIES = ("numpy", "numba")
SOURCES = "dllama-py sources"


def check_same_versions(comm: Comm, own: Mapping[str, str] | None = None) -> None:
    """All ranks together; AgreedFailure names the first rank that differs from the root, and both versions."""
    if comm.size == 1:
        return
    text = json.dumps(dict(own or own_versions())).encode().ljust(MESSAGE_BYTES)
    parts = [np.zeros(MESSAGE_BYTES, np.uint8) for _ in range(comm.size)] if comm.rank == 0 else None
    comm.gather(np.frombuffer(text, np.uint8), parts)
    with agreed(comm):
        compare([json.loads(part.tobytes()) for part in parts or []], comm.hosts)


def own_versions() -> dict[str, str]:
    """Of this program (also a hash of its sources), of Python and of the libraries that compute."""
    return {
        "dllama-py": dllama_py.__version__,
        SOURCES: _sources_hash(),
        "Python": platform.python_version().rpartition(".")[0],
        **{name: _installed(name) for name in LIBRARIES},
    }


def compare(versions: Sequence[Mapping[str, str]], hosts: Sequence[Host]) -> None:
    """ClusterError unless all are as the first. Also on one machine: its containers, or folders, may have others."""
    for rank, other in enumerate(versions):
        for name, wanted in versions[0].items():
            if other.get(name) != wanted:
                raise ClusterError(
                    f"rank {rank} on {hosts[rank]} has {name} {other.get(name, 'missing')}, rank 0 on {hosts[0]} has "
                    f"{name} {wanted}; install the same versions on every host"
                )


def _sources_hash() -> str:
    folder = Path(dllama_py.__file__).parent
    digest = hashlib.sha256()
    for source in sorted(folder.rglob("*.py")):
        digest.update(f"{source.relative_to(folder)}\n".encode() + source.read_bytes())
    return digest.hexdigest()[:8]


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"
