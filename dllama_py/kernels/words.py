"""The argument words of a kernel, declared once: their names, their order and what each holds.

Compiled code reads a word by its member, which numba folds to the number; Python passes words by name.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from numpy.typing import NDArray

Argument = int | NDArray[Any]


class Words(IntEnum):
    """Subclasses declare `NAME = "what it holds"` in the order of the words, with type and shape where it is an array.

    A word is an int64: an array's address, or a number. Counts that change from step to step come as arrays.
    """

    def __new__(cls, meaning: str) -> "Words":
        number = len(cls.__members__)
        word = int.__new__(cls, number)
        word._value_ = number
        word.__doc__ = meaning
        return word

    @classmethod
    def in_order(cls, given: Mapping[str, Argument], optional: Mapping["Words", Argument]) -> tuple[Argument, ...]:
        """Arguments by the lower-case names of the words; `optional`: of those that may be left out. TypeError for any
        mistake."""
        names = {word.name.lower(): word for word in cls}
        missing = [name for name, word in names.items() if name not in given and word not in optional]
        unknown = [name for name in given if name not in names]
        if missing or unknown:
            raise TypeError(f"{cls.__name__}: missing words {missing}, unknown words {unknown}")
        return tuple(given[name] if name in given else optional[word] for name, word in names.items())
