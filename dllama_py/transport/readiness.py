"""Waiting until every rank has come so far, with word of whom it is waited for."""

import numpy as np

from dllama_py.progress import Progress, Work
from dllama_py.transport.comm import Comm


def wait_for_kernels(comm: Comm, on_progress: Progress) -> None:
    """Until every rank has its kernels: the root says for whom it waits, which may be compiling for a while."""
    word = np.zeros(1, np.uint8)
    if comm.rank:
        comm.send(word, 0)
        return
    work = Work("waiting for the kernels of other hosts", comm.size, "ranks")
    for rank in range(1, comm.size):
        on_progress(work, rank, f"rank {rank} on {comm.hosts[rank]}")
        comm.recv(word, rank)
    on_progress(work, comm.size, "")
