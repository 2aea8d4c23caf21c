"""Two ranks swap vectors, or spans of them, in the middle of a program."""

from typing import Any

from dllama_py.kernels.clock import now_ns
from dllama_py.kernels.exchange import span
from dllama_py.kernels.messages import begin_receiving, begin_sending, count, end_receiving, end_sending
from dllama_py.kernels.program import argument, kernel
from dllama_py.kernels.subroutines import njit
from dllama_py.kernels.vectors import get_i64
from dllama_py.kernels.words import Words
from dllama_py.wire import WireWord


class Swap(Words):
    """Spans as in exchange.py, of vectors of whole blocks."""

    N_ROWS = "int64 [1], rows of the step"
    N_BLOCKS = "of a row"
    BLOCK_BYTES = "on the wire"
    SENT = "uint8, the whole vector of which a span is sent"
    SENT_LEVEL = "of the span that is sent"
    SENT_PATH = "of the span that is sent"
    RECEIVED = "uint8, the whole vector of which a span is received"
    RECEIVED_LEVEL = "of the span that is received"
    RECEIVED_PATH = "of the span that is received"
    PARTNER = "rank"
    WIRE = "int64 [N_WORDS], a wire's table"


@kernel(Swap)
def swap(args: int, thread: int, threads: int) -> None:
    """Sends a span of one vector to the partner and receives a span of another from it."""
    if thread != 0:
        return
    wire, partner = argument(args, Swap.WIRE), argument(args, Swap.PARTNER)
    coming, n_coming = piece(args, Swap.RECEIVED, Swap.RECEIVED_LEVEL, Swap.RECEIVED_PATH)
    leaving, n_leaving = piece(args, Swap.SENT, Swap.SENT_LEVEL, Swap.SENT_PATH)

    started = now_ns(wire + 8 * WireWord.CLOCK)
    begin_receiving(wire, partner, coming, n_coming)
    begin_sending(wire, partner, leaving, n_leaving)
    end_receiving(wire, partner, coming, n_coming)
    end_sending(wire, partner, n_leaving)
    count(wire, started, 1)


@njit(error_model="numpy")
def piece(args: int, vector: int, level: int, path: int) -> tuple[Any, Any]:
    """Address and bytes of a span on the wire; the words that tell its vector, level and path."""
    n_blocks = get_i64(argument(args, Swap.N_ROWS)) * argument(args, Swap.N_BLOCKS)
    start, end = span(n_blocks, argument(args, level), argument(args, path))
    size = argument(args, Swap.BLOCK_BYTES)
    return argument(args, vector) + start * size, (end - start) * size
