"""sin and cos that are the same on every machine: decimal arithmetic, then single float64 operations.

Platforms' math libraries differ in the last bit. Decimal numbers are computed in software to a stated precision
everywhere (General Decimal Arithmetic), so a few of them are the seed; the rest follows by turning what is there by
a known angle, which takes multiplications and additions only.
"""

from decimal import ROUND_FLOOR, Context, Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

from dllama_py.rope_scaling import DIGITS, PI


def turned(frequencies: list[Decimal], n_positions: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """cos and sin of position * frequency, float64 [n_positions, E/2] each, to about 1e-15.

    Positions 2^k to 2^(k+1) are those below 2^k turned by 2^k positions.
    """
    cos, sin = np.ones((n_positions, len(frequencies))), np.zeros((n_positions, len(frequencies)))
    known = 1
    while known < n_positions:
        step = [_cos_sin(frequency * known) for frequency in frequencies]
        c, s = np.array([pair[0] for pair in step]), np.array([pair[1] for pair in step])  # [E/2]
        n_new = min(known, n_positions - known)
        a, b = cos[:n_new], sin[:n_new]
        cos[known : known + n_new] = a * c - b * s
        sin[known : known + n_new] = b * c + a * s
        known += n_new
    return cos, sin


def _cos_sin(angle: Decimal) -> tuple[float, float]:
    """Taylor's series after taking off whole turns."""
    with localcontext(Context(prec=DIGITS)):
        angle -= 2 * PI * (angle / (2 * PI)).to_integral_value(ROUND_FLOOR)
        cos, sin, term, n = Decimal(0), Decimal(0), Decimal(1), 0
        while abs(term) > Decimal(10) ** -(DIGITS - 15):
            cos += term
            sin += term * angle / (n + 1)
            term *= -angle * angle / ((n + 1) * (n + 2))
            n += 2
        return float(cos), float(sin)
