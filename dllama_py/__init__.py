"""Several computers hold one language model together and answer as one machine."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dllama_py.api import Engine as Engine
    from dllama_py.api import StreamedToken as StreamedToken

__version__ = "0.1.0"
__all__ = ["Engine", "StreamedToken", "__version__"]


def __getattr__(name: str) -> Any:
    """The engine is imported when it is asked for: `--help` needs neither numba nor MPI."""
    if name not in ("Engine", "StreamedToken"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dllama_py import api

    return getattr(api, name)
