# python -m pytest tests/cluster/test_leaving_alone.py
"""A rank that goes before all have met: MPI alone would let the others wait for it for ever."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "leave.py"


@pytest.mark.parametrize(("how", "code"), [("1", 1), ("3", 3), ("SIGTERM", 143), ("SIGINT", 130)])
def test_it_takes_the_others_along(how: str, code: int) -> None:
    command = [Path(sys.executable).with_name("mpirun"), "-np", "4", sys.executable, PROGRAM, how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stdout) == (code, "")
    assert "BAD TERMINATION" not in done.stderr
