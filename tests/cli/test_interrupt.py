# python -m pytest tests/cli/test_interrupt.py
"""Ctrl-C while the program is still being loaded."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

_INTERRUPTED = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "dllama_py.cli":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
"""
_OF_A_RANK = "from dllama_py.__main__ import main; main()"
_OF_LAUNCH = "import runpy; runpy.run_path('launch.py', run_name='__main__')"


def test_ctrl_c_while_modules_are_loaded_says_nothing(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).parents[2] / "launch.py", tmp_path)
    for start in (_OF_A_RANK, _OF_LAUNCH):
        command = [sys.executable, "-c", _INTERRUPTED + start]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200)
        assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_tests_of_ctrl_c_pass_where_a_shell_ignores_it() -> None:
    """As for `make test &` and nohup; this file's other test is the one that is run."""
    pytest = f"{sys.executable} -m pytest -q -p no:cacheprovider {Path(__file__)} -k modules"
    deaf = ["sh", "-c", f"trap '' INT; exec {pytest}"]
    done = subprocess.run(deaf, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
