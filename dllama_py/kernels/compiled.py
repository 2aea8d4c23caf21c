"""Compiled functions that Python calls: made on first call, or all at once by `warm_up`.

Importing compiles nothing; a process that is about to run a model warms up first.
"""

from collections.abc import Callable, Collection
from typing import Any, Protocol

from numba import njit

from dllama_py.kernels.code_cache import compiling
from dllama_py.progress import Progress, Work, unwatched

_DECLARED: list[tuple[Any, str]] = []


def compiled(signature: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: an njit function of the given numba signature that drops the interpreter lock."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        dispatcher: Callable[..., Any] = njit(nogil=True, cache=True, error_model="numpy")(function)
        _DECLARED.append((dispatcher, signature))
        return dispatcher

    return decorate


class Addressed(Protocol):
    """A kernel: asked for its address, it compiles or is loaded."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> int: ...


def warm_up(kernels: Collection[Addressed] = (), on_progress: Progress = unwatched) -> None:
    """Compiles, or loads from the cache, every function declared so far and these kernels; once is enough."""
    waiting = [(dispatcher, signature) for dispatcher, signature in _DECLARED if not dispatcher.signatures]
    work = Work("compiling kernels for this CPU, once", len(waiting) + len(kernels), "kernels")
    for number, (dispatcher, signature) in enumerate(waiting):
        on_progress(work, number, dispatcher.__name__)
        with compiling(f"{dispatcher.__module__}.{dispatcher.__name__}"):
            dispatcher.compile(signature)
    for number, kernel in enumerate(kernels, len(waiting)):
        on_progress(work, number, kernel.name)
        kernel.address  # noqa: B018 - asking compiles it
    on_progress(work, work.total, "")
