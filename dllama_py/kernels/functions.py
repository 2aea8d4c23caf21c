"""What is compiled once for its one signature and kept in a file: functions that Python calls, and their like.

`compiled` functions are made by `warm_up`, or when they are first called; `compiled_on_demand` ones only where they are
needed. A function can be sent to another process of this program, which compiles it there (compile_helper.py).
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from numba import njit

from dllama_py.kernels.code_file import CodeFile, CodeFiles


class Compilable(Protocol):
    """A function or a kernel, by a name unlike all others."""

    @property
    def name(self) -> str: ...

    @property
    def file(self) -> CodeFile: ...

    @property
    def is_made(self) -> bool:
        """Whether this process has it."""
        ...

    def make(self) -> None:
        """Loads it, or compiles it under its lock."""
        ...


class CompiledFunction:
    """A function of one signature. `made_by`: what gives it in another process, a function and its arguments."""

    def __init__(self, function: Callable[..., Any], signature: str, made_by: tuple[Any, ...] | None = None) -> None:
        self.name = f"{function.__module__}.{function.__name__}"
        self.file = CodeFile(self.name)
        self.__doc__ = function.__doc__
        self._signature = signature
        self._made_by = made_by or (declared, function.__module__, function.__name__)
        self.dispatcher = njit(nogil=True, error_model="numpy")(function)
        self.dispatcher._cache = self.file

    @property
    def is_made(self) -> bool:
        return bool(self.dispatcher.signatures)

    def make(self) -> None:
        if not self.is_made:
            self.dispatcher.compile(self._signature)
            self.dispatcher.disable_compile()  # for other types there is no file

    def __call__(self, *arguments: Any) -> Any:
        self.make()
        return self.dispatcher(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._made_by[0], self._made_by[1:]


DECLARED: dict[str, CompiledFunction] = {}  # what every process that runs a model needs


def compiled(signature: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: a function of the given numba signature that drops the interpreter lock; kernels may call it too.

    `warm_up` makes it with all others.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        made = CompiledFunction(function, signature)
        DECLARED[made.name] = made
        dispatcher: Callable[..., Any] = made.dispatcher
        return dispatcher

    return decorate


def compiled_on_demand(
    signature: str, made_by: tuple[Any, ...] | None = None
) -> Callable[[Callable[..., Any]], CompiledFunction]:
    """Decorator: as `compiled`, but `warm_up` makes it only if asked to. Arguments of other types raise TypeError."""
    return lambda function: CompiledFunction(function, signature, made_by)


def declared(module: str, name: str) -> Any:
    """A function by its name, in whichever process."""
    found = getattr(import_module(module), name)
    return DECLARED.get(f"{module}.{name}", found)


def kept_njit(function: Callable[..., Any]) -> Any:
    """Decorator: numba's function of any signature, each kept like all that is compiled here."""
    dispatcher: Any = njit(error_model="numpy")(function)
    dispatcher._cache = CodeFiles(f"{function.__module__}.{function.__name__}")
    return dispatcher
