"""Kernels of messages between stages, called on plain arrays."""

import numpy as np

from dllama_py.activations import ActivationType
from dllama_py.float_types import Bytes, Floats
from dllama_py.kernels import crc32c
from dllama_py.kernels.activations import CODINGS, decode_rows, encode_rows
from dllama_py.kernels.program import Kernel, argument, kernel
from dllama_py.kernels.team import Team
from dllama_py.kernels.vectors import set_i64
from dllama_py.kernels.words import Words
from tests.kernels import drive

UNALIGNED = 5  # bytes in front of the rows in a message


class Checksum(Words):
    BYTES = "uint8 [n]"
    N = "how many"
    OUT = "int64 [1]"


@kernel(Checksum)
def checksum(args: int, thread: int, threads: int) -> None:
    if thread == 0:
        set_i64(
            argument(args, Checksum.OUT), crc32c.checksum(argument(args, Checksum.BYTES), argument(args, Checksum.N))
        )


def crc(team: Team, data: Bytes) -> int:
    out = drive.words(0)
    drive.run(team, checksum(bytes=data, n=data.size, out=out))
    return int(out[0])


def encoded(team: Team, kind: ActivationType, x: Floats) -> Bytes:
    """float32 [T, D] -> uint8 [T, row_bytes]."""
    n_bytes = len(x) * kind.row_bytes(x.shape[1])
    message = np.full(UNALIGNED + n_bytes + 64, 0xEE, np.uint8)
    _, message = _run(team, encode_rows, kind, x, message)
    assert set(message[:UNALIGNED]) == set(message[UNALIGNED + n_bytes :]) == {0xEE}
    return message[UNALIGNED : UNALIGNED + n_bytes].reshape(len(x), -1)


def decoded(team: Team, kind: ActivationType, rows: Bytes, width: int) -> Floats:
    """The way back."""
    message = np.concatenate([np.zeros(UNALIGNED, np.uint8), rows.reshape(-1)])
    x, _ = _run(team, decode_rows, kind, drive.untouched(len(rows), width), message)
    return x


def _run(team: Team, kernel: Kernel, kind: ActivationType, x: Floats, message: Bytes) -> tuple[Floats, Bytes]:
    """-> both as they are then. They lie in one array, for a CPU that is emulated sees only what a kernel is given."""
    room = np.concatenate([x.reshape(-1).view(np.uint8), message])
    call = kernel(
        n_rows=drive.words(len(x)),
        n_blocks=x.shape[1] // 32,
        values=room,
        place=drive.words(room.ctypes.data + x.nbytes + UNALIGNED),
        coding=CODINGS[kind],
    )
    drive.run(team, call)
    return room[: x.nbytes].view(np.float32).reshape(x.shape), room[x.nbytes :]
