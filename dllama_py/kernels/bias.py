"""Biases of a product's outputs, added in float32 to what the product has written.

Columns are shared as products share them, so between a product and its bias there is no barrier.
"""

from dllama_py.kernels.program import argument, kernel, share_groups
from dllama_py.kernels.vectors import add_f32, get_i64, load_f32, store_f32
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
