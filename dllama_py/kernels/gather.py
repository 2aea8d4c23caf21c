"""Every rank's candidates of a step's wanted rows come to the leader at the end of the program.

So between two tokens no rank's Python stands between another's logits and the leader.
"""

from dllama_py.kernels.boxes import copy_bytes
from dllama_py.kernels.clock import now_ns
from dllama_py.kernels.messages import begin_receiving, begin_sending, count, end_receiving, end_sending
from dllama_py.kernels.program import argument, kernel
from dllama_py.kernels.vectors import get_i64
from dllama_py.kernels.words import Words
from dllama_py.wire import WireWord


class Gather(Words):
    N_ROWS = "int64 [1], rows whose logits are wanted"
    N_CANDIDATES = "int64 [1]: C, of each row; 0: there is nothing to do"
    N_SHARES = "of a rank"
    CANDIDATES = "int64 [n_rows, C + 2 * n_shares], of this rank"
    OF_ALL = "int64 [ranks, *]: at the leader, of every rank as much"
    STRIDE = "bytes from rank to rank of the former"
    RANK = "0: the leader"
    RANKS = "how many there are"
    WIRE = "int64 [N_WORDS], a wire's table"


@kernel(Gather, Gather.OF_ALL)
def gather(args: int, thread: int, threads: int) -> None:
    """of_all[rank] = candidates of the rank."""
    n_candidates, n_rows = get_i64(argument(args, Gather.N_CANDIDATES)), get_i64(argument(args, Gather.N_ROWS))
    if thread != 0 or n_candidates == 0 or n_rows == 0:
        return
    n_bytes = 8 * n_rows * (n_candidates + 2 * argument(args, Gather.N_SHARES))
    wire, own, n_ranks = argument(args, Gather.WIRE), argument(args, Gather.CANDIDATES), argument(args, Gather.RANKS)
    started = now_ns(wire + 8 * WireWord.CLOCK)
    if argument(args, Gather.RANK) == 0:
        copy_bytes(argument(args, Gather.OF_ALL), own, n_bytes)
        for rank in range(1, n_ranks):
            into = argument(args, Gather.OF_ALL) + rank * argument(args, Gather.STRIDE)
            begin_receiving(wire, rank, into, n_bytes)
            end_receiving(wire, rank, into, n_bytes)
        count(wire, started, n_ranks - 1)
    else:
        begin_sending(wire, 0, own, n_bytes)
        end_sending(wire, 0, n_bytes)
        count(wire, started, 1)
