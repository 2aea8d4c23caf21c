"""Biases of a product's outputs, added in float32 to what the product has written.

An entry of an expert's list is a row of the outputs, as in matmul.py.

Columns are shared as products share them, so between a product and its bias there is no barrier.
"""

from dllama_py.kernels.program import argument, kernel, share_groups
from dllama_py.kernels.vectors import add_f32, fma_f32, get_f32, get_i64, load_f32, splat_f32, store_f32
from dllama_py.kernels.words import Words


class AddBias(Words):
    N_ROWS = "int64 [1], rows of the step"
    X = "float32 [n_rows, n_groups * 16], overwritten"
    STRIDE = "bytes from row to row"
    BIAS = "float32 [n_groups * 16]"
    N_GROUPS = "of 16 columns"


@kernel(AddBias)
def add_bias(args: int, thread: int, threads: int) -> None:
    """x = x + bias, the same for every row."""
    first, end = share_groups(argument(args, AddBias.N_GROUPS), thread, threads)
    for row in range(get_i64(argument(args, AddBias.N_ROWS))):
        x = argument(args, AddBias.X) + row * argument(args, AddBias.STRIDE)
        for group in range(first, end):
            at = x + 64 * group
            store_f32(at, add_f32(load_f32(at), load_f32(argument(args, AddBias.BIAS) + 64 * group)))


class ExpertBias(Words):
    STARTS = "int64 [n_experts + 1], borders of the experts in the lists"
    N_EXPERTS = "experts of the layer"
    ROWS = "int64 [entries], the row of x of each entry"
    FACTORS = "float32 [entries], the expert's weight; left out: 1"
    X = "float32 [*, n_groups * 16], overwritten"
    STRIDE = "bytes from row to row of x"
    BIAS = "float32 [n_experts, *], of which n_groups * 16 are taken"
    BIAS_STRIDE = "bytes from expert to expert"
    N_GROUPS = "of 16 columns"


@kernel(ExpertBias, ExpertBias.FACTORS)
def add_expert_bias(args: int, thread: int, threads: int) -> None:
    """x[row] = x[row] + bias of the expert, or fma(factor, bias, x[row]), over the entries, experts ascending."""
    first, end = share_groups(argument(args, ExpertBias.N_GROUPS), thread, threads)
    factors = argument(args, ExpertBias.FACTORS)
    for expert in range(argument(args, ExpertBias.N_EXPERTS)):
        bias = argument(args, ExpertBias.BIAS) + expert * argument(args, ExpertBias.BIAS_STRIDE)
        starts = argument(args, ExpertBias.STARTS) + 8 * expert
        for entry in range(get_i64(starts), get_i64(starts + 8)):
            row = get_i64(argument(args, ExpertBias.ROWS) + 8 * entry)
            x = argument(args, ExpertBias.X) + row * argument(args, ExpertBias.STRIDE)
            for at in range(64 * first, 64 * end, 64):
                if factors != 0:
                    factor = splat_f32(get_f32(factors + 4 * entry))
                    store_f32(x + at, fma_f32(factor, load_f32(bias + at), load_f32(x + at)))
                else:
                    store_f32(x + at, add_f32(load_f32(x + at), load_f32(bias + at)))
