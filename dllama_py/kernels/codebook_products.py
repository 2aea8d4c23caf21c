"""Blocks of table numbers times blocks of activations: `rows_dot_...` as in code_products.py, for types of 16 levels.

Numbers are nibbles, unpacked as other codes are. Levels may be stored with the bias that signed products of this CPU
want.
"""

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

from dllama_py.codebooks import (
    IQ4_LEVELS,
    MXFP4_LEVELS,
)
from dllama_py.kernels.code_products import nibble_vectors
from dllama_py.kernels.codegen import (
    I32,
    I64,
    VI32,
    splat,
)
from dllama_py.kernels.codewords import signed_bytes
from dllama_py.kernels.dot4 import DOT4
from dllama_py.kernels.tables import byte_of_table
from dllama_py.kernels.tiles import load_at, rows_of

MXFP4_OFFSET = 12
"""Levels of MXFP4 are stored with it, so that they are not negative."""

_IQ4_TABLE = signed_bytes(IQ4_LEVELS)
_MXFP4_TABLE = bytes(level + MXFP4_OFFSET for level in MXFP4_LEVELS)


def sum_of_signed(builder: Any, acc: Any, vectors: list[Any], words: list[Any]) -> Any:
    for v, word in zip(vectors, words, strict=True):
        acc = DOT4.signed(builder, acc, v, word)
    return acc


def _sum_of_mxfp4(builder: Any, acc: Any, vectors: list[Any], words: list[Any]) -> Any:
    return DOT4.small(builder, acc, vectors, words, 2 * MXFP4_OFFSET)


def _define_levels(name: str, table: bytes, sum_of: Callable[..., Any]) -> Any:
    """The intrinsic for 4 vectors of nibbles that are numbers of a table of 16 bytes."""

    def rows_dot(typingctx: Any, acc: Any, weights: Any, addresses: Any, offset: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            acc, weights, addresses, offset = args
            vectors = [byte_of_table(builder, table, v) for v in nibble_vectors(builder, weights)]
            at = [builder.add(offset, I64(4 * j)) for j in range(8)]

            def make(m: int) -> Any:
                words = [splat(builder, load_at(builder, addresses, m, o, I32)) for o in at]
                return sum_of(builder, builder.extract_value(acc, m), vectors, words)

            return rows_of(builder, signature.args[0].height, VI32, make)

        return acc(acc, types.intp, addresses, types.intp), codegen

    rows_dot.__name__ = name
    return intrinsic(rows_dot)


rows_dot_iq4 = _define_levels("rows_dot_iq4", _IQ4_TABLE, sum_of_signed)
"""acc must have started at SIGNED_BIAS * (sum of the activations)."""
rows_dot_mxfp4 = _define_levels("rows_dot_mxfp4", _MXFP4_TABLE, _sum_of_mxfp4)
"""acc must have started at -MXFP4_OFFSET * (sum of the activations)."""
