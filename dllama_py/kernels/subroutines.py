"""`njit` for functions that only compiled functions call; about a quarter less to compile than with numba's own.

numba makes every function ready to be called from Python: wrappers, all of LLVM's passes, machine code. Then it links
the function's LLVM code into each caller, where the passes run again, over what gets inlined. Of a subroutine only that
last part is ever used, so here it remains LLVM code as it was typed, and is optimised once, as a part of its callers.
"""

from collections.abc import Callable
from typing import Any

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering


class SubroutineLibrary(JITCodeLibrary):
    """LLVM code that is linked into others, never run by itself."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Left to the callers."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0


@register_pass(mutates_CFG=True, analysis_only=False)
class SubroutineLowering(NativeLowering):
    """As numba's, into a library of that kind."""

    _name = "subroutine_lowering"

    def run_pass(self, state: Any) -> bool:
        flags, context = state.flags, state.targetctx
        state.library = SubroutineLibrary(context.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        # numba's key of the function, a built-in that is unlike all others; called from Python it raises TypeError
        key = f"only compiled functions call {lowered.fndesc.mangled_name}".isspace
        context.insert_user_function(key, lowered.fndesc, [state.library])
        state.reload_init.extend(state.library._reload_init)
        state["cr"] = _LowerResult(lowered.fndesc, lowered.call_helper, cfunc=key, env=lowered.env)
        flags.no_compile = False
        return True


class Subroutines(CompilerBase):
    """numba's passes but for the last."""

    def define_pipelines(self) -> list[Any]:
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        places = [number for number, (kind, _) in enumerate(pipeline.passes) if kind is NativeLowering]
        pipeline.passes[places[0]] = (SubroutineLowering, "subroutine lowering")
        pipeline._finalized = False
        pipeline.finalize()
        return [pipeline]


OPTIONS = {"pipeline_class": Subroutines}  # for numba's overload


def njit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Decorator, with numba's options: a function that only compiled functions call."""
    return numba.njit(function, **options, **OPTIONS) if function else numba.njit(**options, **OPTIONS)
