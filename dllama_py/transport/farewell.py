"""How the ranks of a job part: each hears of all others that they have come to the end, and who is missing is named.

MPI's own end waits for every rank without one: a rank that froze after the last answer would hold the job for ever.
"""

from collections.abc import Sequence

from dllama_py.transport.silence import Signs
from dllama_py.transport.waiting import Waiter

LEAVING, PARTED = 11, 12  # kinds of signs, beside those of silence.py


def part(signs: Signs, rank: int, hosts: Sequence[str]) -> None:
    """Returns when all ranks have called it. ClusterError names one that gives no sign of life for too long.

    The root begins, and may take as long as it likes before that. `hosts`: of every rank.
    """

    post = signs.post

    def await_sign(kind: int, source: int, patient: bool = False) -> None:
        waiter = Waiter()
        waiter.begin()
        signs.begin(source)
        while post.take(kind, source) is None:
            if waiter.pause():
                signs.look_round()
                if not patient:
                    signs.miss(source, hosts[source])

    if rank:
        await_sign(LEAVING, 0, patient=True)
        post.put(LEAVING, 0)
        await_sign(PARTED, 0)
        return
    others = range(1, len(hosts))
    for other in others:
        post.put(LEAVING, other)
    for other in others:
        await_sign(LEAVING, other)
    for other in others:
        post.put(PARTED, other)
