"""Everything that a model runs is made before its weights are read, by as many processes of the host as want it.

Importing compiles nothing. What is kept is loaded; of the rest each process takes what no other has taken, the longest
first, and loads what others made. So the ranks of a host share the work, and a rank with cores to spare starts helpers.
"""

import time
from collections.abc import Collection, Iterable

from dllama_py.kernels.compile_helper import helpers
from dllama_py.kernels.compile_meter import Meter, expected_s
from dllama_py.kernels.functions import DECLARED, Compilable
from dllama_py.progress import Progress, unwatched

LOOK_S = 0.02
SHORT_S = 1.0  # of compiling, not worth a helper


def warm_up(functions: Collection[Compilable] = (), on_progress: Progress = unwatched, n_helpers: int = 0) -> None:
    """Compiles, or loads, every function declared so far and these; once is enough. Helpers: other processes."""
    waiting = [each for each in dict.fromkeys((*DECLARED.values(), *functions)) if not each.is_made]
    if not waiting:
        return
    meter = Meter(waiting, on_progress)
    with meter.running():
        kept = [each for each in waiting if each.file.is_there()]
        for each in kept:
            meter.make(each)
        missing = sorted(set(waiting) - set(kept), key=lambda each: expected_s(each.name), reverse=True)
        is_long = sum(expected_s(each.name) for each in missing) > SHORT_S
        with helpers(missing, min(n_helpers, len(missing) - 1) if is_long else 0):
            for found in takeable(missing):
                if found is None:
                    time.sleep(LOOK_S)
                else:
                    meter.make(found)


def takeable(missing: Iterable[Compilable]) -> "Iterable[Compilable | None]":
    """One after the other, whichever this process may make now; None while others make all that are left."""
    left = list(missing)
    while left:
        each = next((each for each in left if each.file.claim()), None)
        if each is not None:
            left.remove(each)
        yield each
