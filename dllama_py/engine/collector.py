"""Python's collector of cyclic garbage, kept out of the token loop: that makes no cycles, and a collection takes a good
part of a second in a process with compiled kernels.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from dllama_py.arena import settle_on_huge_pages

_pauses: list[bool] = []  # of each pause that goes on, whether the collector was on before


@contextmanager
def paused_collector() -> Iterator[None]:
    """No collection meanwhile, unless somebody asks for one. Pauses may overlap and end in any order."""
    _pauses.append(gc.isenabled() or any(_pauses))
    gc.disable()
    try:
        yield
    finally:
        was_enabled = _pauses.pop()
        if was_enabled and not _pauses:
            gc.enable()


def settle() -> None:
    """Collects what loading has left behind; what there is now stays, on huge pages, out of all collections to come."""
    gc.collect()
    gc.freeze()
    settle_on_huge_pages()


def unsettle() -> None:
    """What `settle` left out can be collected again."""
    gc.unfreeze()
