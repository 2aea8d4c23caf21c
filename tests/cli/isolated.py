"""The program in a process where neither MPI nor numba can be imported."""

import subprocess
import sys

_BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numba", "llvmlite", "mpi4py"):
            raise ImportError(f"{name} must not be imported")

sys.meta_path.insert(0, Blocked())
from dllama_py import cli
sys.exit(cli.main(sys.argv[1:]))
"""


def run_isolated(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """`dllama ARGUMENTS`; -W error makes a warning fail."""
    command = [sys.executable, "-W", "error", "-c", _BLOCKED, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
