# python -m pytest tests/kernels/test_memory.py
import numpy as np

from dllama_py.kernels.memory import copy_rows, read_stream
from dllama_py.kernels.team import Team
from tests.kernels import drive
from tests.kernels.samples import random, same_bits


def test_rows_are_copied_by_number(team: Team) -> None:
    x, out = random(5, 48), drive.untouched(4, 48)
    numbers = drive.words(4, 0, 4, 2)
    drive.run(team, copy_rows(n_rows=drive.words(4), x=x, stride=x.strides[0], x_rows=numbers, width=48, out=out))
    assert same_bits(out, x[[4, 0, 4, 2]])


def test_every_byte_is_read_once(team: Team) -> None:
    """Lanes are or-ed and added, so that a single set bit comes out in its thread's word."""
    for position in (0, 255, 256, 4095):
        x, out = np.zeros(4096, np.uint8), np.zeros((team.n_threads, 16), np.int32)
        x[position] = 1
        drive.run(team, read_stream(x=x, n_bytes=x.nbytes, out=out))
        assert (out[:, 0] != 0).any()
