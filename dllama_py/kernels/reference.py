"""docs/arithmetic.md written down the slow, obvious way: one float at a time over plain arrays.

This is what the tile kernels are tested against, to the bit. It shares no code and no memory layout with them:
weights come as the bytes of a file, the cache as [S, K, E]. It does not know pages, threads or packed groups.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dllama_py.blocks import BLOCK, Bytes, Floats, FloatType, dequantize, parts_of
from dllama_py.kernels.functions import kept_njit
from dllama_py.kernels.vectors import fma, sqrt

Integers = NDArray[np.int64]
_ZERO, _ONE, _HALF = np.float32(0), np.float32(1), np.float32(0.5)
_SMALLEST_NORMAL = np.float32(2.0**-126)
_HALF_MAX = np.float32(65504)


@kept_njit
def _round_half_even(x: Any) -> Any:
    below = np.floor(x)
    rest = x - below
    if rest > _HALF or (rest == _HALF and below % 2 != 0):
        return below + _ONE
    return below


def round_f16(x: Floats) -> Floats:
    """float32 of any shape -> the nearest halves, as float32; beyond 65504 the largest half."""
    return np.clip(x, -_HALF_MAX, _HALF_MAX).astype(np.float16).astype(np.float32)


def round_bf16(x: Floats) -> Floats:
    """float32 of any shape -> the nearest bf16 numbers, ties to even, as float32. A NaN keeps its upper bits, quiet."""
    upper = (x.view(np.uint32) >> 16).astype(np.uint64)
    rest = x.view(np.uint32) & 0xFFFF
    upper += (rest > 0x8000) | ((rest == 0x8000) & (upper % 2 == 1))
    rounded = (upper << 16).astype(np.uint32)
    kept = x.view(np.uint32) & np.uint32(0xFFFF0000) | np.uint32(0x00400000)
    return np.where(np.isnan(x), kept, rounded).view(np.float32)


def quantize(x: Floats) -> tuple[Integers, Floats]:
    """Activations float32 [n] -> codes int64 [n], scales float32 [B]."""
    codes, scales = np.zeros(x.size, np.int64), np.zeros(x.size // BLOCK, np.float32)
    _quantize(x, codes, scales)
    return codes, scales


@kept_njit
def _quantize(x: Any, codes: Any, scales: Any) -> None:
    for block in range(scales.size):
        amax = _ZERO
        for i in range(block * BLOCK, block * BLOCK + BLOCK):
            if not abs(x[i]) <= amax:  # a NaN is larger than all, and stays
                amax = amax if np.isnan(amax) else abs(x[i])
        scale = amax / np.float32(127)
        if not scale < _SMALLEST_NORMAL:
            scales[block] = scale
        if _SMALLEST_NORMAL <= scale < np.inf:
            for i in range(block * BLOCK, block * BLOCK + BLOCK):
                codes[i] = np.int64(_round_half_even(x[i] * (_ONE / scale)))


def round_q80(x: Floats) -> Floats:
    """float32 [n] -> half(scale) * code, as float32; never -0."""
    codes, scales = quantize(x)
    return np.repeat(round_f16(scales), BLOCK) * codes.astype(np.float32) + _ZERO


def matmul(weights: Bytes, kind: FloatType, x: Floats, leaves: Integers) -> Floats:
    """weights uint8 [N, row_bytes] as in a file, x float32 [T, columns], leaves int64 [P + 1], borders in blocks of 32
    -> float32 [P, T, N].
    """
    out = np.zeros((leaves.size - 1, x.shape[0], weights.shape[0]), np.float32)  # [P, T, N]
    if kind.is_float:
        widened = dequantize(weights, kind)  # [N, columns]
        for row in range(x.shape[0]):
            _float_products(widened, x[row], leaves, out[:, row])
        return out
    blocks = _blocks_of(weights, kind)
    for row in range(x.shape[0]):
        codes, scales = quantize(x[row])
        _block_products(blocks, codes, scales, leaves, out[:, row])
    return out


@kept_njit
def _float_products(weights: Any, x: Any, leaves: Any, out: Any) -> None:
    for leaf in range(out.shape[0]):
        for n in range(out.shape[1]):
            total = _ZERO
            for block in range(leaves[leaf], leaves[leaf + 1]):
                s = _ZERO
                for column in range(block * BLOCK, block * BLOCK + BLOCK):
                    s = fma(weights[n, column], x[column], s)
                total = total + s
            out[leaf, n] = total


class _Blocks(NamedTuple):
    """Scales and minima of 32 columns are part of d and m, those of 16 stay integers (else these are 1)."""

    codes: Integers  # [N, columns]
    scales: Integers  # [N, columns / 16]
    d: Floats  # [N, B]
    minima: Integers  # [N, columns / 16]
    m: Floats  # [N, B], or [N, 0] for types without a minimum


@kept_njit
def _block_products(w: Any, x: Any, x_scales: Any, leaves: Any, out: Any) -> None:
    for leaf in range(out.shape[0]):
        for n in range(out.shape[1]):
            total = _ZERO
            for block in range(leaves[leaf], leaves[leaf + 1]):
                isum = msum = 0
                for column in range(block * BLOCK, block * BLOCK + BLOCK):
                    isum += w.scales[n, column // 16] * w.codes[n, column] * x[column]
                    msum += w.minima[n, column // 16] * x[column]
                total = fma(w.d[n, block] * x_scales[block], np.float32(isum), total)
                if w.m.size > 0:
                    total = fma(w.m[n, block], x_scales[block] * np.float32(msum), total)
            out[leaf, n] = total


def _blocks_of(weights: Bytes, kind: FloatType) -> _Blocks:
    n, parts = weights.shape[0], parts_of(weights, kind)
    codes = parts.codes.reshape(n, -1).astype(np.int64)
    d, scales = _by_blocks(parts.d, parts.scales, codes.shape[1])
    if parts.m is None or parts.minima is None:
        return _Blocks(codes, scales, d, np.ones_like(scales), np.zeros((n, 0), np.float32))
    m, minima = _by_blocks(parts.m, parts.minima, codes.shape[1])
    return _Blocks(codes, scales, d, minima, m)


def _by_blocks(d: Floats, scales: NDArray[np.integer], columns: int) -> tuple[Floats, Integers]:
    """Factors [N, blocks, 1] and integers [N, blocks, S] of file blocks -> [N, B] and [N, columns / 16]."""
    n, n_blocks = len(d), columns // BLOCK
    if scales[0].size == 2 * n_blocks:
        return np.repeat(d.reshape(n, -1), scales.shape[2] // 2, axis=1), scales.reshape(n, -1).astype(np.int64)
    return (d * scales.astype(np.float32)).reshape(n, n_blocks), np.ones((n, 2 * n_blocks), np.int64)


def mix(partials: Floats, weights: Floats) -> Floats:
    """Experts' leaves float32 [experts, P, N] and their weights [experts], ascending by index -> float32 [P, N]."""
    out = np.zeros(partials.shape[1:], np.float32)  # [P, N]
    _mix(partials.reshape(weights.size, -1), weights, out.reshape(-1))
    return out


@kept_njit
def _mix(partials: Any, weights: Any, out: Any) -> None:
    for i in range(out.size):
        for e in range(weights.size):
            out[i] = fma(weights[e], partials[e, i], out[i])


@kept_njit
def exp_of(x: Any) -> Any:
    """exp of one float32, clamped to [-87, 88]."""
    x = min(max(x, np.float32(-87)), np.float32(88))
    n = fma(x, np.float32(1.44269504), np.float32(12582912)) - np.float32(12582912)
    r = fma(n, np.float32(-0.693359375), x)
    r = fma(n, np.float32(2.12194440e-4), r)
    p = np.float32(1.9875691500e-4)
    p = fma(p, r, np.float32(1.3981999507e-3))
    p = fma(p, r, np.float32(8.3334519073e-3))
    p = fma(p, r, np.float32(4.1665795894e-2))
    p = fma(p, r, np.float32(1.6666665459e-1))
    p = fma(p, r, np.float32(5.0000001201e-1))
    y = fma(p, r * r, r) + _ONE
    return y * np.float32(2.0 ** np.float64(n))


@kept_njit
def gated(gate: Any, up: Any) -> Any:
    """silu(gate) * up, float32 [n] each."""
    out = np.empty_like(gate)
    for i in range(gate.size):
        out[i] = gate[i] / (_ONE + exp_of(-gate[i])) * up[i]
    return out


@kept_njit
def gelu_gated(gate: Any, up: Any) -> Any:
    """gelu(gate) * up, float32 [n] each."""
    out = np.empty_like(gate)
    for i in range(gate.size):
        slope = fma(gate[i] * gate[i], np.float32(-0.07135481628), np.float32(-1.5957691216))
        out[i] = gate[i] / (_ONE + exp_of(gate[i] * slope)) * up[i]
    return out


@kept_njit
def clamped_swiglu(gate: Any, up: Any) -> Any:
    """The feed-forward's hidden values of gpt-oss, float32 [n] each."""
    out = np.empty_like(gate)
    for i in range(gate.size):
        g = np.float32(7) if gate[i] > 7 else gate[i]
        u = np.float32(7) if up[i] > 7 else (np.float32(-7) if up[i] < -7 else up[i])
        out[i] = g / (_ONE + exp_of(g * np.float32(-1.702))) * (u + _ONE)
    return out


@kept_njit
def halving_sum(lanes: Any) -> Any:
    """float32 [16], overwritten: lane i with i + 8, then 4, 2, 1."""
    for half in (8, 4, 2, 1):
        for i in range(half):
            lanes[i] = lanes[i] + lanes[i + half]
    return lanes[0]


@kept_njit
def rms_norm(x: Any, weight: Any, epsilon: Any) -> Any:
    """float32 [n], n a multiple of 16."""
    lanes = np.zeros(16, np.float32)
    for i in range(x.size):
        lanes[i % 16] = fma(x[i], x[i], lanes[i % 16])
    inverse = _ONE / sqrt(halving_sum(lanes) / np.float32(x.size) + epsilon)
    out = np.empty_like(x)
    for i in range(x.size):
        out[i] = (x[i] * inverse) * weight[i]
    return out


@kept_njit
def rope(x: Any, cos: Any, sin: Any, adjacent: bool) -> Any:
    """One head float32 [E], cos and sin [E/2] of its position."""
    out = np.empty_like(x)
    for i in range(cos.size):
        first, second = (2 * i, 2 * i + 1) if adjacent else (i, i + cos.size)
        a, b = x[first], x[second]
        out[first] = fma(a, cos[i], -(b * sin[i]))
        out[second] = fma(a, sin[i], b * cos[i])
    return out


ROUNDINGS: dict[str, Callable[[Floats], Floats]] = {"f32": np.copy, "bf16": round_bf16, "q80": round_q80}


def tree_sum(leaves: Floats, exchange: str) -> Floats:
    """float32 [P, n], P a power of two -> [n]; leaves, inner nodes and root are rounded to f32, bf16 or q80."""
    rounded = ROUNDINGS[exchange]
    nodes = [rounded(leaf) for leaf in leaves]
    while len(nodes) > 1:
        nodes = [rounded(nodes[i] + nodes[i + 1]) for i in range(0, len(nodes), 2)]
    return nodes[0]


def route(logits: Floats, n_chosen: int, weighs_all: bool = False) -> tuple[list[int], list[np.float32]]:
    """Router logits float32 [experts] -> the chosen experts, ascending, and their weights."""
    best_first = sorted(range(logits.size), key=lambda e: (-logits[e], e))
    chosen = sorted(best_first[:n_chosen])
    powers = {e: np.float32(exp_of(logits[e] - logits.max())) for e in (range(logits.size) if weighs_all else chosen)}
    total = _ZERO
    for power in powers.values():
        total = total + power
    return chosen, [powers[e] / total for e in chosen]


def shared_factor(logit: np.float32) -> np.float32:
    """The weight of an expert that every row uses."""
    return np.float32(_ONE / (_ONE + exp_of(-logit)))
