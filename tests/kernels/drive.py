"""Kernels called on plain arrays, each in a program of its own, with the shapes of their references."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dllama_py.blocks import Bytes, Floats, FloatType
from dllama_py.kernels import elementwise
from dllama_py.kernels import matmul as products
from dllama_py.kernels.layout import (
    X_BLOCK_BYTES,
    X_SCALE,
    X_SCALED_SUM,
    X_SUM_FIRST,
    X_SUM_LAST,
    file_bytes,
    n_groups,
    packed_bytes,
)
from dllama_py.kernels.pack import pack_rows
from dllama_py.kernels.program import Instruction, Kernel, Program
from dllama_py.kernels.team import Team

Integers = NDArray[np.int64]
QUIET_NAN = np.uint32(0x7FC01234)  # what outputs hold before a kernel runs


def run(team: Team, *instructions: Instruction) -> None:
    team.run(Program(instructions))


def words(*values: int) -> Integers:
    return np.array(values, np.int64)


def untouched(*shape: int) -> Floats:
    """float32 of NaNs, so that what a kernel leaves out shows."""
    return np.full(shape, QUIET_NAN).view(np.float32)


def empty_packed(kind: FloatType, rows: int, blocks: range) -> Bytes:
    """A packed matrix of zeros."""
    return np.zeros(packed_bytes(kind, rows, blocks), np.uint8)


def pack(kind: FloatType, weights: Bytes, blocks: range | None = None) -> Bytes:
    """File rows uint8 [N, row_bytes] -> packed, of all columns or of some blocks of 32."""
    blocks = blocks or range(weights.shape[1] // kind.block_bytes * kind.block_elements // 32)
    packed = empty_packed(kind, len(weights), blocks)
    pack_rows(kind, blocks, np.ascontiguousarray(weights[:, file_bytes(kind, blocks)]), packed, 0)
    return packed


def quantize(team: Team, x: Floats) -> Bytes:
    """float32 [T, columns] -> uint8 [T, B * 48]."""
    n_blocks = x.shape[1] // 32
    out = np.full((x.shape[0], n_blocks * X_BLOCK_BYTES), 0xEE, np.uint8)
    run(team, elementwise.quantize(n_rows=words(len(x)), x=x, x_stride=x.strides[0], n_blocks=n_blocks, out_q=out))
    return out


def quantized_fields(blocks: Bytes) -> tuple[Integers, Floats, Integers, Floats]:
    """uint8 [B * 48] -> codes int64 [B * 32], scales [B], sums int64 [B, 2] (first 16, last 16), scaled sums of all
    [B].
    """
    blocks = blocks.reshape(-1, X_BLOCK_BYTES)
    codes = blocks[:, :32].view(np.int8).astype(np.int64).reshape(-1)
    scales, scaled_sums = (_words(blocks, at).view(np.float32)[:, 0] for at in (X_SCALE, X_SCALED_SUM))
    sums = np.concatenate([_words(blocks, X_SUM_FIRST), _words(blocks, X_SUM_LAST)], axis=1).astype(np.int64)
    return codes, scales, sums, scaled_sums


def _words(blocks: Bytes, at: int) -> NDArray[np.int32]:
    return np.ascontiguousarray(blocks[:, at : at + 4]).view(np.int32)


def activation_rows(team: Team, kind: FloatType, x: Floats) -> NDArray[np.generic]:
    """As the products of that weights type want them."""
    return x if kind.is_float else quantize(team, x)


def matmul(team: Team, kind: FloatType, weights: Bytes, x: Floats, leaves: Sequence[int]) -> Floats:
    """Arguments and result [P, T, N] of reference.matmul."""
    return matmul_packed(team, kind, pack(kind, weights), len(weights), x, leaves)


def matmul_packed(
    team: Team, kind: FloatType, packed: Bytes, n: int, x: Floats, leaves: Sequence[int], phase: int = 0
) -> Floats:
    """The same for n rows packed already."""
    n_rows, n_leaves = len(x), len(leaves) - 1
    out = untouched(n_leaves, n_rows, n_groups(n) * 16)
    rows, rows_of_x = np.arange(n_rows), activation_rows(team, kind, x)
    call = products.matmul(kind)(
        starts=words(0, n_rows),
        x=rows_of_x,
        x_stride=rows_of_x.strides[0],
        x_rows=rows,
        weights=packed,
        n_groups=n_groups(n),
        n_blocks=x.shape[1] // 32,
        phase=phase,
        out=out,
        out_stride=out.strides[1],
        out_rows=rows,
        leaves=words(*leaves),
        n_leaves=n_leaves,
        leaf_stride=out.strides[0],
        n_experts=1,
    )
    run(team, call)
    assert not out[..., n:].any(), "rows added to fill a group give zeros"
    return np.ascontiguousarray(out[..., :n])


def norm(team: Team, x: Floats, numbers: Sequence[int], weight: Floats, epsilon: float) -> tuple[Floats, Bytes]:
    """rms norm of the rows x[numbers] -> float32 [n, columns], and uint8 [n, B * 48]."""
    n, n_blocks = len(numbers), x.shape[1] // 32
    floats, quantized = untouched(n, x.shape[1]), np.full((n, n_blocks * X_BLOCK_BYTES), 0xEE, np.uint8)
    for out in ({"out_f32": floats}, {"out_q": quantized}):
        call = elementwise.norm(
            n_rows=words(n),
            x=x,
            x_stride=x.strides[0],
            x_rows=words(*numbers),
            weight=weight,
            n_blocks=n_blocks,
            epsilon=np.array([epsilon], np.float32),
            **out,
        )
        run(team, call)
    return floats, quantized


def gated_hidden(
    team: Team, gate: Floats, up: Floats, kernel: Kernel = elementwise.gated_hidden
) -> tuple[Floats, Bytes]:
    """silu(gate) * up of rows [T, columns], or another such kernel -> float32 [T, columns], and uint8 [T, B * 48]."""
    n, n_blocks = len(gate), gate.shape[1] // 32
    floats, quantized = untouched(*gate.shape), np.full((n, n_blocks * X_BLOCK_BYTES), 0xEE, np.uint8)
    call = kernel(
        n_rows=words(n),
        gate=gate,
        up=up,
        stride=gate.strides[0],
        n_blocks=n_blocks,
        out_f32=floats,
        out_q=quantized,
    )
    run(team, call)
    return floats, quantized


def add_normed(team: Team, x: Floats, y: Floats, weight: Floats, epsilon: float) -> Floats:
    """x + rms norm of y, float32 [T, columns]."""
    out = x.copy()
    call = elementwise.add_normed(
        n_rows=words(len(x)),
        x=out,
        y=y,
        weight=weight,
        n_blocks=x.shape[1] // 32,
        epsilon=np.array([epsilon], np.float32),
    )
    run(team, call)
    return out


def tree_sum(team: Team, leaves: Floats, rounding: int) -> Floats:
    """float32 [P, T, columns] -> [T, columns]."""
    n_leaves, n_rows, columns = leaves.shape
    out, scratch = untouched(n_rows, columns), leaves.copy()
    call = elementwise.tree_sum(
        n_rows=words(n_rows),
        leaves=scratch,
        leaf_stride=scratch.strides[0],
        n_leaves=n_leaves,
        n_blocks=columns // 32,
        rounding=rounding,
        out=out,
    )
    run(team, call)
    return out


def mixture(
    team: Team, kind: FloatType, weights: Bytes, x: Floats, routes: Sequence[Sequence[tuple[int, float]]]
) -> tuple[Floats, Floats]:
    """weights uint8 [experts, N, row_bytes], x [T, columns], routes of each row: (expert, factor), ascending.

    -> each chosen expert's product float32 [T, k, N] in the order of the routes, and the weighted sum
    over two leaves [2, T, N].
    """
    n_experts, n = weights.shape[:2]
    n_rows, k, n_blocks = len(x), len(routes[0]), x.shape[1] // 32
    entries = sorted((expert, row, place, w) for row, r in enumerate(routes) for place, (expert, w) in enumerate(r))
    starts = words(*[sum(entry[0] < expert for entry in entries) for expert in range(n_experts + 1)])
    rows, pairs = words(*[e[1] for e in entries]), words(*[e[1] * k + e[2] for e in entries])
    packed, rows_of_x = np.concatenate([pack(kind, w) for w in weights]), activation_rows(team, kind, x)
    products_out, sums = untouched(n_rows * k, n_groups(n) * 16), untouched(2, n_rows, n_groups(n) * 16)
    shared = {
        "starts": starts,
        "x": rows_of_x,
        "x_stride": rows_of_x.strides[0],
        "x_rows": rows,
        "weights": packed,
        "n_groups": n_groups(n),
        "n_blocks": n_blocks,
        "phase": 0,
        "n_experts": n_experts,
    }
    each = products.matmul(kind)(
        **shared,
        out=products_out,
        out_stride=products_out.strides[0],
        out_rows=pairs,
        leaves=words(0, n_blocks),
        n_leaves=1,
        leaf_stride=0,
    )
    mixed = products.matmul_weighted(kind)(
        **shared,
        out=sums,
        out_stride=sums.strides[1],
        out_rows=rows,
        leaves=words(0, n_blocks // 2, n_blocks),
        n_leaves=2,
        leaf_stride=sums.strides[0],
        factors=np.array([e[3] for e in entries], np.float32),
        n_rows=words(n_rows),
    )
    run(team, each, mixed)
    return products_out.reshape(n_rows, k, -1)[..., :n], sums[..., :n]
