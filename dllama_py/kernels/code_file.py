"""numba's cache of one function with one signature: a file of the store, compiled under its lock if it is not there.

numba asks `load_overload` before it compiles and gives the result to `save_overload` after, in whichever thread or
process that happens; so nothing is ever compiled without the lock.
"""

import hashlib
import pickle
from typing import IO, Any

from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from dllama_py.kernels.code_cache import store


class CodeFile(NullCache):
    """`name`: of the function, unlike all others."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock: IO[bytes] | None = None

    @property
    def cache_path(self) -> str:
        return str(store().folder)

    def is_there(self) -> bool:
        """Whether it need not be compiled."""
        return store().read(self._name) is not None

    def claim(self) -> bool:
        """Whether the code is there, or this process is now the one that may compile it; False: another does."""
        if self._lock is None and not self.is_there() and store().folder is not None:
            self._lock = store().lock(self._name, wait=False)
            return self._lock is not None
        return True

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function; None, and the lock is held, where it has to be compiled."""
        content = store().read(self._name)
        if content is None and self._lock is None:
            self._lock = store().lock(self._name)
            content = store().read(self._name)  # of who had the lock before
        if content is None:
            return None
        self._release()
        target_context.refresh()
        return CompileResult._rebuild(target_context, *pickle.loads(content))

    def save_overload(self, sig: Any, data: Any) -> None:
        """Writes it and frees the lock. UsageError where it cannot be kept."""
        assert not data.library.has_dynamic_globals, f"{self._name} holds addresses of this process"
        try:
            store().write(self._name, dumps(data._reduce()))
        finally:
            self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


class CodeFiles(NullCache):
    """Of a function of any signature, a file for each."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._files: dict[str, CodeFile] = {}

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        return self._file(sig).load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        self._file(sig).save_overload(sig, data)

    def _file(self, sig: Any) -> CodeFile:
        number = hashlib.sha256(str(sig).encode()).hexdigest()[:16]
        return self._files.setdefault(number, CodeFile(f"{self._name}.{number}"))
