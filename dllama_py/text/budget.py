"""How long one rendering of a template may take and how much it may make. Knows Jinja's values, not its syntax."""

from collections.abc import ItemsView, Iterable, Iterator, KeysView, ValuesView
from contextvars import ContextVar
from time import thread_time
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.utils import Namespace

MAX_SECONDS = 0.4  # of this thread's own computing; two thousand messages take a tenth of it
MAX_CHARACTERS = 4_000_000  # written by one rendering, and in any value made on the way
ITEM = 8  # what an item of a list weighs beside its content; bounds the walk over a nest of shared lists
MAX_COUNT = 1_000_000  # of repetitions, places or items; numbers that are only written may be any
MAX_BITS = 4096  # of a product of whole numbers, which grow twice as long with each squaring


class Budget:
    """What is left for one rendering; every overrun is a TemplateError."""

    def __init__(self) -> None:
        self._deadline = thread_time() + MAX_SECONDS
        self._written = 0  # characters, also those kept in variables and macros

    def check_time(self) -> None:
        if thread_time() > self._deadline:
            refuse(f"it did not end within {MAX_SECONDS:g} seconds of computing")

    def spend(self, written: Any) -> None:
        self.check_time()
        self._written += weight(written)
        check_size(self._written)


current: ContextVar[Budget] = ContextVar("current")  # of the rendering in this thread


def refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def check_size(size: int) -> None:
    if size > MAX_CHARACTERS:
        refuse(f"it makes more than {MAX_CHARACTERS} characters")


def check_count(value: Any) -> None:
    if isinstance(value, int) and abs(value) > MAX_COUNT:
        refuse(f"it uses a number above {MAX_COUNT} as a count")


def check_product(left: Any, right: Any) -> None:
    """Of two numbers the length, of a number and a text or list the size."""
    if isinstance(left, int | float) and isinstance(right, int | float):
        if _n_bits(left) + _n_bits(right) > MAX_BITS:
            refuse(f"it multiplies to a number of more than {MAX_BITS} bits")
        return
    check_count(left)
    check_count(right)
    check_size(factor(left) * factor(right))


def factor(value: Any) -> int:
    """What a value contributes to the length of a product."""
    return max(1, abs(value) if isinstance(value, int) else weight(value))


def weight(value: Any) -> int:
    """About the characters of a value when written; counting ends where the limit is passed."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, int):
        return 1 + value.bit_length() // 3
    if isinstance(value, dict):
        return _summed(item for pair in value.items() for item in pair)
    if isinstance(value, Namespace):  # written with all that it holds
        return weight(object.__getattribute__(value, "_Namespace__attrs"))
    if isinstance(value, range):
        return ITEM * len(value)
    return _summed(value) if isinstance(value, list | tuple | KeysView | ValuesView | ItemsView) else 1


def drained(values: Iterator[Any]) -> list[Any]:
    """What a generator yields, weighed while it comes: nobody could weigh it later."""
    total, kept = 0, []
    for value in values:
        current.get().check_time()
        total += ITEM + weight(value)
        check_size(total)
        kept.append(value)
    return kept


def depth(value: Any) -> int:
    """How deep lists and mappings lie in each other; 0 for anything else."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


def _n_bits(value: float) -> int:
    return value.bit_length() if isinstance(value, int) else 0


def _summed(values: Iterable[Any]) -> int:
    total = 0
    for value in values:
        total += ITEM + weight(value)
        if total > MAX_CHARACTERS:
            break
    return total
