"""Exponentials of logits, and their sum, with the same bits on every CPU: single IEEE operations in a written order."""

import math

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float64]

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238  # 32 significant bits: its product with a small integer is exact
_LN2_LOW = 1.9082149292705877e-10
_TAYLOR = tuple(1.0 / math.factorial(k) for k in range(7, -1, -1))
_SMALLEST_EXPONENT = -700.0  # exp of anything below counts as zero; keeps powers of two normal
_EXP_CHUNK = 16384  # elements; a few arrays of float64 stay in a core's second-level cache


def exp_weights(logits: NDArray[np.floating], largest: float, temperature: float) -> Weights:
    """exp((logit - largest) / temperature), float64 [n]."""
    exponents = logits.astype(np.float64)  # [n]
    exponents -= largest
    with np.errstate(over="ignore"):
        exponents /= temperature
    for start in range(0, len(exponents), _EXP_CHUNK):
        exponents[start : start + _EXP_CHUNK] = exp(exponents[start : start + _EXP_CHUNK])
    return exponents


def exp(x: Weights) -> Weights:
    """exp of float64 [n], all <= 0, to about 1e-8 (logits are float32). Numpy's own differs between CPUs.

    x = n ln 2 + r, then Taylor's polynomial of r by Horner's rule.
    """
    vanishing = x < _SMALLEST_EXPONENT
    x = np.maximum(x, _SMALLEST_EXPONENT)
    n = np.rint(x * _LOG2_E)
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    y = np.full_like(x, _TAYLOR[0])
    for coefficient in _TAYLOR[1:]:
        y *= r
        y += coefficient
    y.view(np.int64)[:] += n.astype(np.int64) << 52  # times 2^n, exact: y is near 1 and n above -1011
    y[vanishing] = 0
    return y


def tree_sum(values: Weights) -> float:
    """The sum of float64 [n] in a halving tree: element i with i + N/2, N the power of two that holds them all."""
    lanes = np.zeros(1 << (len(values) - 1).bit_length())
    lanes[: len(values)] = values
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    return float(lanes[0])
