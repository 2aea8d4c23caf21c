"""Compiled functions that only some processes need: made when they are first called, by one process of a host."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from numba import njit

from dllama_py.kernels.code_cache import compiling


def compiled_on_demand(signature: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: as `compiled`, but `warm_up` leaves it alone. Arguments of other types raise TypeError."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        dispatcher = njit(nogil=True, cache=True, error_model="numpy")(function)

        @wraps(function)
        def call(*arguments: Any) -> Any:
            if not dispatcher.signatures:
                with compiling(f"{function.__module__}.{function.__name__}"):
                    dispatcher.compile(signature)
                dispatcher.disable_compile()  # for other types numba would compile without the lock
            return dispatcher(*arguments)

        return call

    return decorate
