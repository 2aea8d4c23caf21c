"""Programs: kernels strung together, run by all threads of a rank without returning to Python.

A kernel is a compiled function of (address of its arguments, this thread, number of threads). A program is an
array of instructions, each the address of a kernel and up to 18 argument words, which the kernel declares by name
(words.py); all threads run every instruction, and meet at a barrier after those whose results others read. The whole
model is one such program, with its exchanges between ranks. So a kernel is compiled once whatever model it serves, and
a model is written down in plain Python.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.ccallback import CFunc
from numba.extending import intrinsic
from numpy.typing import NDArray

from dllama_py.kernels.barrier import meet
from dllama_py.kernels.code_file import CodeFile
from dllama_py.kernels.codegen import I64, define, load
from dllama_py.kernels.functions import compiled, declared
from dllama_py.kernels.subroutines import njit
from dllama_py.kernels.vectors import get_i64
from dllama_py.kernels.words import Argument, Words

WORDS = 20  # of an instruction: kernel, barrier flag, 18 arguments
INSTRUCTION_BYTES = 8 * WORDS
N_ARGUMENTS = WORDS - 2


class Kernel:
    """A compiled function, made when its address is first asked for (so that `--help` compiles nothing).

    `words` declares its arguments; `optional`: what those are that are not given. One of several that a function
    makes has a name of its own, and `made_by`, that function and its arguments.
    """

    def __init__(
        self,
        function: Callable[..., None],
        words: type[Words],
        optional: Mapping[Words, Argument] | None = None,
        name: str = "",
        made_by: tuple[Any, ...] | None = None,
    ) -> None:
        assert len(words) <= N_ARGUMENTS, words
        self._function = function
        self._words = words
        self._optional = optional or {}
        self.name = name or function.__name__
        function.__qualname__ = self.name  # and so the symbols of its code differ from all others
        self.file = CodeFile(self.name)
        self._made_by = made_by or (declared, function.__module__, self.name)
        self.__doc__ = function.__doc__

    @cached_property
    def address(self) -> int:
        """Where the compiled function is. Compiles it, or loads it from the cache."""
        signature = (types.intp,) * 3, types.void
        compiled: Any = CFunc(self._function, signature, locals={}, options={"nopython": True, "error_model": "numpy"})
        compiled._cache = self.file
        compiled.compile()
        return int(compiled.address)

    @property
    def is_made(self) -> bool:
        return "address" in self.__dict__

    def make(self) -> None:
        self.address  # noqa: B018 - asking makes it

    def __reduce__(self) -> tuple[Any, ...]:
        return self._made_by[0], self._made_by[1:]

    def __call__(self, *, barrier: bool = True, **words: Argument) -> "Instruction":
        """An instruction: arrays become addresses; their owner must keep them alive, the program does.

        `words` by the lower-case names of the kernel's declaration; TypeError where one is missing or unknown.
        """
        return Instruction(self, self._words.in_order(words, self._optional), barrier)


def kernel(words: type[Words], *optional: Words) -> Callable[[Callable[..., None]], Kernel]:
    """Decorator: `function(args, thread, threads)` reads its words with `argument(args, Words.NAME)`.

    `optional` ones are 0 where they are not given.
    """

    def decorate(function: Callable[..., None]) -> Kernel:
        return Kernel(function, words, dict.fromkeys(optional, 0))

    return decorate


@dataclass(frozen=True, slots=True)
class Instruction:
    """One call of a kernel. Without a barrier the next must not read what another thread writes in this one."""

    kernel: Kernel
    arguments: tuple[Argument, ...]
    barrier: bool

    def words(self) -> list[int]:
        """As run_program reads it; compiles the kernel if nobody has yet."""
        values = [a if isinstance(a, int) else a.ctypes.data for a in self.arguments]
        return [self.kernel.address, int(self.barrier), *values, *[0] * (N_ARGUMENTS - len(values))]


class Program:
    """Instructions ready to run, or none. A kernel that makes the word `halt` anything but 0 ends it at the next
    barrier.
    """

    def __init__(self, instructions: Sequence[Instruction], halt: NDArray[np.int64] | None = None) -> None:
        assert not instructions or instructions[-1].barrier, "a program ends with a barrier"
        self.instructions = tuple(instructions)
        self.halt = np.zeros(1, np.int64) if halt is None else halt
        self.halt_address: int = self.halt.ctypes.data
        self.words = np.array([i.words() for i in instructions], np.int64).reshape(-1, WORDS)
        self.address: int = self.words.ctypes.data  # asked for once; numpy takes microseconds to tell it

    def __len__(self) -> int:
        return len(self.instructions)


@intrinsic
def call_kernel(typingctx: Any, function: Any, arguments: Any, thread: Any, threads: Any) -> Any:
    """Calls the kernel at an address."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        i64 = ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [i64] * 3).as_pointer()
        builder.call(builder.inttoptr(values[0], kind), values[1:])
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4), codegen


# An intrinsic: numba's inline="always" would copy a function's body into each of the many calls before typing it.
argument = define(
    types.int64,
    (types.intp, types.intp),
    lambda b, args, number: load(b, b.add(args, b.mul(number, I64(8))), I64),
    "argument",
)
"""argument(args, word): an argument word of the running instruction."""


@njit(forceinline=True, error_model="numpy")
def share(n_items: int, thread: int, threads: int) -> tuple[int, int]:
    """The contiguous part [start, stop) of n items that falls to a thread."""
    return n_items * thread // threads, n_items * (thread + 1) // threads


@njit(forceinline=True, error_model="numpy")
def share_groups(n_groups: int, thread: int, threads: int) -> tuple[int, int]:
    """The groups of 16 columns that fall to a thread, cut between blocks of 32.

    Kernels that share a row's columns this way (or its blocks by `share`) need no barrier between them: what a thread
    reads it has itself written.
    """
    first, end = share((n_groups + 1) // 2, thread, threads)
    return 2 * first, min(2 * end, n_groups)


@njit(forceinline=True, error_model="numpy")
def rows_touched(first: int, end: int, per_row: int) -> tuple[int, int]:
    """The rows [start, stop) in which items [first, end) lie, `per_row` each. Division is dear: not once an item."""
    return first // per_row, (end + per_row - 1) // per_row


@njit(forceinline=True, error_model="numpy")
def part_of_row(row: int, first: int, end: int, per_row: int) -> tuple[int, int]:
    """Of items [first, end) those in a row, counted from its beginning."""
    return max(first - row * per_row, 0), min(end - row * per_row, per_row)


@compiled("void(intp, intp, intp, intp, intp, intp)")
def run_program(program: int, n_instructions: int, halt: int, barrier: int, thread: int, threads: int) -> None:
    """One thread's walk through a program; all threads of the team call it with the same program."""
    for number in range(n_instructions):
        instruction = program + number * INSTRUCTION_BYTES
        call_kernel(get_i64(instruction), instruction + 16, thread, threads)
        if get_i64(instruction + 8) != 0 and meet(barrier, threads, halt):
            return
