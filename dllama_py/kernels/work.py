"""What instructions have to do, read off their argument words."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dllama_py.blocks import BLOCK
from dllama_py.kernels.attention_steps import Attention
from dllama_py.kernels.gather import Gather
from dllama_py.kernels.memory import ReadStream
from dllama_py.kernels.product_words import Product
from dllama_py.kernels.program import Instruction
from dllama_py.kernels.swap import Swap
from dllama_py.kernels.words import Argument
from dllama_py.stamps import UNLIMITED, Role, Work

Counter = Callable[[], int]
GROUP = 16  # outputs
HALF_CACHE = "attention_1"
ROLES = {
    **dict.fromkeys(("encode", "decode", "add_received"), Role.EXCHANGE),  # between the messages of an all-reduce
    "decode_rows": Role.ARRIVING,
    "encode_rows": Role.LEAVING,
}


def work_of(instructions: Sequence[Instruction]) -> tuple[tuple[Work, ...], tuple[Counter, ...]]:
    """Work of each instruction, and the counters that it counts by; these read arrays that every step sets anew."""
    counters: dict[Any, Counter] = {}
    works = tuple(_work(instruction, counters) for instruction in instructions)
    return works, tuple(counters.values())


def _work(instruction: Instruction, counters: dict[Any, Counter]) -> Work:
    name, words = instruction.kernel.name, instruction.arguments
    if name.startswith("matmul"):
        return _product(name, words, _number(counters, _last, words[Product.STARTS]))
    if name.startswith("attention"):
        seen = words[Attention.N_ROWS], words[Attention.ROWS], words[Attention.WINDOW]
        return _attention(name, words, _number(counters, _positions, *seen))
    if name == "read_stream":
        return Work(name, Role.MEMORY, part_bytes=_int(words[ReadStream.N_BYTES]), most_parts=1)
    if name == "gather":
        asked = words[Gather.N_ROWS], words[Gather.N_CANDIDATES], words[Gather.N_SHARES]
        return _gather(name, words, _number(counters, _gathered, *asked))
    if name == "swap":
        return _swap(name, words, _number(counters, _last, words[Swap.N_ROWS]))
    return Work(name, ROLES.get(name, Role.SMALL))


def _product(name: str, words: Sequence[Argument], counter: int) -> Work:
    """Dense, or of experts, each of which is read once at most; how many were chosen is not known, only how often."""
    n_experts = _int(words[Product.N_EXPERTS])
    part_bytes = _array(words[Product.WEIGHTS]).nbytes // n_experts
    macs = _int(words[Product.N_GROUPS]) * GROUP * _int(words[Product.N_BLOCKS]) * BLOCK
    return Work(name, Role.WEIGHTS, counter, part_bytes, n_experts, macs)


def _attention(name: str, words: Sequence[Argument], counter: int) -> Work:
    """Keys and values of a position, for each row that sees it (rows of one tile share them in truth)."""
    width, value_bytes = _int(words[Attention.HEAD_WIDTH]), 2 if name == HALF_CACHE else 4
    n_heads = int(_array(words[Attention.HEAD_GROUPS])[-1])
    part_bytes = 2 * _int(words[Attention.KV_HEADS]) * width * value_bytes
    return Work(name, Role.ATTENTION, counter, part_bytes, UNLIMITED, 2 * n_heads * width)


def _swap(name: str, words: Sequence[Argument], counter: int) -> Work:
    """The part of the vector that is sent, of every row."""
    row_bytes = _int(words[Swap.N_BLOCKS]) * _int(words[Swap.BLOCK_BYTES])
    return Work(name, Role.EXCHANGE, counter, sent_bytes=row_bytes >> _int(words[Swap.SENT_LEVEL]))


def _gather(name: str, words: Sequence[Argument], counter: int) -> Work:
    """The words of every row, which all ranks but the leader send."""
    is_sent = _int(words[Gather.RANK]) > 0
    return Work(name, Role.EXCHANGE, counter, sent_bytes=8 if is_sent else 0)


def _number(counters: dict[Any, Counter], read: Callable[..., int], *arguments: Argument) -> int:
    """Of the counter that reads these arrays, a new one if there is none."""
    key = (read, *(each if isinstance(each, int) else each.ctypes.data for each in arguments))
    counters.setdefault(key, partial(read, *arguments))
    return list(counters).index(key)


def _last(borders: NDArray[np.int64]) -> int:
    """Entries of a product: the last border of its experts."""
    return int(borders[-1])


def _positions(n_rows: NDArray[np.int64], rows: NDArray[np.int64], window: int) -> int:
    """Positions that the rows see, themselves included."""
    seen = rows[: n_rows[0], 0] + 1
    return int((np.minimum(seen, window) if window else seen).sum())


def _gathered(n_rows: NDArray[np.int64], n_candidates: NDArray[np.int64], n_shares: int) -> int:
    """Words that a rank tells of its wanted rows."""
    return int(n_rows[0]) * (int(n_candidates[0]) + 2 * n_shares) if n_candidates[0] else 0


def _array(argument: Argument) -> NDArray[Any]:
    assert not isinstance(argument, int)
    return argument


def _int(argument: Argument) -> int:
    assert isinstance(argument, int)
    return argument
