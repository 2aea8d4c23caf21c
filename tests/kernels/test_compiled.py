# python -m pytest tests/kernels/test_compiled.py
"""Processes share what has to be compiled, and show how far it is without jumps back."""

import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

from dllama_py.blocks import FloatType
from dllama_py.kernels.attention import attention
from dllama_py.kernels.compile_meter import PARTS
from dllama_py.kernels.elementwise import add
from dllama_py.kernels.functions import DECLARED
from dllama_py.kernels.heads import prepare_heads
from dllama_py.kernels.matmul import matmul, matmul_weighted
from dllama_py.kernels.memory import read_stream
from dllama_py.kernels.pack import packer
from dllama_py.kernels.team import Team

HELPED = """
from dllama_py.kernels.code_cache import store
from dllama_py.kernels.compile_helper import helpers
from dllama_py.kernels.compiled import warm_up
from dllama_py.kernels.elementwise import add
from dllama_py.kernels.memory import copy_rows
told = []
with helpers([add], 1):  # alone: this process takes nothing
    import time
    while not add.file.is_there():
        time.sleep(0.05)
warm_up([add, copy_rows], lambda work, done, detail: told.append(done), 1)
assert add.is_made and copy_rows.is_made
print(*told)
"""


def test_what_is_compiled_can_be_sent_to_another_process() -> None:
    functions = [add, attention(True), prepare_heads(True, False), matmul(FloatType.Q40), read_stream]
    functions += [matmul_weighted(FloatType.Q80), packer(FloatType.Q41), *DECLARED.values()]
    names = [each.name for each in functions]
    assert [each.name for each in pickle.loads(pickle.dumps(functions))] == names
    assert len(set(names)) == len(names)


def test_a_helper_compiles_what_it_is_sent_and_the_share_that_is_shown_never_falls(tmp_path: Path) -> None:
    env = os.environ | {"DLLAMA_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", HELPED], env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    told = [int(word) for word in done.stdout.split()]
    assert told == sorted(told)
    assert told[-1] == PARTS


def test_a_team_has_no_threads_before_there_is_work() -> None:
    before = threading.active_count()
    team = Team(3)
    assert threading.active_count() == before
    team.close()
