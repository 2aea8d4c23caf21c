# python -m pytest tests/cli/test_interrupt.py
"""Ctrl-C while the program is still being loaded."""

import signal
import subprocess
import sys

_INTERRUPTED = """
import os, signal, sys
from dllama_py.__main__ import main

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "dllama_py.cli":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
main()
"""


def test_ctrl_c_while_modules_are_loaded_says_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", _INTERRUPTED], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
