"""Compiled functions that Python calls: made on first call, or all at once by `warm_up`.

Importing compiles nothing; a process that is about to run a model warms up first.
"""

from collections.abc import Callable
from typing import Any

from numba import njit

from dllama_py.kernels.code_cache import compiling

_DECLARED: list[tuple[Any, str]] = []


def compiled(signature: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: an njit function of the given numba signature that drops the interpreter lock."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        dispatcher: Callable[..., Any] = njit(nogil=True, cache=True, error_model="numpy")(function)
        _DECLARED.append((dispatcher, signature))
        return dispatcher

    return decorate


def warm_up() -> None:
    """Compiles, or loads from the cache, every function declared so far; once is enough."""
    for dispatcher, signature in _DECLARED:
        if not dispatcher.signatures:
            with compiling(f"{dispatcher.__module__}.{dispatcher.__name__}"):
                dispatcher.compile(signature)
