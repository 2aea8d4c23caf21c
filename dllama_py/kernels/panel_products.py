"""Products of many rows with blocks that are decoded once for all of them (panels.py), for matmul.py."""

from dllama_py.kernels.constants import constant, number_of
from dllama_py.kernels.panels import (
    DECODED_BYTES,
    PANEL_BYTES,
    ROWS,
    SUM_BYTES,
    add_decoded,
    decode_block,
    rows_keep,
    rows_load,
    stack_memory,
)
from dllama_py.kernels.prefetch import prefetch
from dllama_py.kernels.product_words import GROUP_BYTES, RUNS, TALLEST, Product
from dllama_py.kernels.program import argument
from dllama_py.kernels.subroutines import njit
from dllama_py.kernels.tiles import row_addresses, rows_store, rows_weigh, rows_zero_f32
from dllama_py.kernels.vectors import get_i64, store_f32, zero_f32
from dllama_py.kernels.weight_blocks import bytes_of_block, bytes_of_header


def panel(kind, weighted, args, place):
    """Decodes 8 blocks or less once for the tiles of up to 64 rows, whose totals meanwhile lie in memory."""
    end = min(place.end, place.entry + ROWS)
    sums = stack_memory(constant(PANEL_BYTES))
    decoded = sums + ROWS * SUM_BYTES
    weights = header = place.weights
    ahead = get_i64(argument(args, Product.PATTERN))
    block, border = 0, 0  # the next header's block
    for leaf in range(argument(args, Product.N_LEAVES)):
        for row in range(end - place.entry):
            store_f32(sums + SUM_BYTES * row, zero_f32())
        leaf_end = get_i64(argument(args, Product.LEAVES) + 8 * leaf + 8)
        while block < leaf_end:
            if block == border:
                header, weights = weights, weights + bytes_of_header(kind)
                border += RUNS - (argument(args, Product.PHASE) if block == 0 else 0)
            n_blocks = min(border, leaf_end) - block
            for i in range(n_blocks):
                prefetch(weights, bytes_of_block(kind), ahead)
                decode_block(kind, header, weights, decoded + DECODED_BYTES * i)
                weights += bytes_of_block(kind)
            add_blocks(kind, args, place.entry, end, sums, decoded, block, n_blocks)
            block += n_blocks
        at = place.group * GROUP_BYTES + leaf * argument(args, Product.LEAF_STRIDE)
        for entry in range(place.entry, end):
            put_sum(weighted, args, entry, at, sums + SUM_BYTES * (entry - place.entry))
    return ROWS


@njit(error_model="numpy")
def add_blocks(kind, args, first_entry, end, sums, decoded, block, n_blocks):
    """Decoded blocks times rows of activations, added to what lies in `sums`."""
    entry = first_entry
    while entry < end:
        if TALLEST > 4 and end - entry > 4:
            add_to_tile(kind, rows_zero_f32(constant(8)), args, entry, end, sums, decoded, block, n_blocks)
            entry, sums = entry + 8, sums + 8 * SUM_BYTES
        else:
            add_to_tile(kind, rows_zero_f32(constant(4)), args, entry, end, sums, decoded, block, n_blocks)
            entry, sums = entry + 4, sums + 4 * SUM_BYTES


@njit(error_model="numpy")
def add_to_tile(kind, zero, args, entry, end, sums, decoded, block, n_blocks):
    """To the sums of as many rows from `entry` on as `zero` is high."""
    x_rows = argument(args, Product.X_ROWS) + 8 * entry
    x = row_addresses(zero, argument(args, Product.X), argument(args, Product.X_STRIDE), x_rows, end - entry - 1)
    total = rows_load(zero, sums)
    for i in range(n_blocks):
        total = add_decoded(kind, total, decoded + DECODED_BYTES * i, x, block + i)
    rows_keep(sums, total)


@njit(error_model="numpy")
def put_sum(weighted, args, entry, at, sums):
    """16 totals of one row to its output."""
    zero = rows_zero_f32(constant(1))
    out_rows = argument(args, Product.OUT_ROWS) + 8 * entry
    out = row_addresses(zero, argument(args, Product.OUT), argument(args, Product.OUT_STRIDE), out_rows, 0)
    if number_of(weighted):
        rows_weigh(out, at, argument(args, Product.FACTORS) + 4 * entry, 0, rows_load(zero, sums))
    else:
        rows_store(out, at, rows_load(zero, sums))
