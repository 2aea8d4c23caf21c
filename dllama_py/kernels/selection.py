"""What choosing among logits needs beside vectors.py: comparisons of lanes as masks, the bits of a float."""

from typing import Any

from numba import types

from dllama_py.kernels.codegen import FLOAT, I16, I64, LANES, VF32, const, define, splat, store
from dllama_py.kernels.vectors import f32x16


def _mask_above(builder: Any, v: Any, limit: Any) -> Any:
    lanes = builder.fcmp_unordered(">", v, splat(builder, limit))
    return builder.zext(builder.bitcast(lanes, I16), I64)


def _kept_from(builder: Any, v: Any, x: Any, limit: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">=", x, splat(builder, limit)), v, const(VF32, 0.0))


assert LANES == I16.width

mask_above = define(types.int64, (f32x16, types.float32), _mask_above, "mask_above")
"""mask_above(v, limit): bit i is set where lane i is above the limit or not a number."""
kept_from = define(f32x16, (f32x16, f32x16, types.float32), _kept_from, "kept_from")
"""kept_from(v, x, limit): lanes of v where x is at least the limit, else 0."""
float_of_bits = define(types.float32, (types.int32,), lambda b, bits: b.bitcast(bits, FLOAT), "float_of_bits")
set_f64 = define(types.void, (types.intp, types.float64), store, "set_f64")
