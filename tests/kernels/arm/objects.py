"""python -m tests.kernels.arm.objects CPU FOLDER: kernels compiled for another CPU, whatever machine this is.

NUMBA_CPU_FEATURES must say what the CPU has, so that the kernels choose as they would there. numba's own passes run
with LLVM's target machine of that CPU, so the code is that of a real one. Writes kernels.o, which defines the table
`kernels` and needs nothing of Python; kernels.s, the same to be read; and kernels.json, the path that was chosen and
the kernels' names in the order of the table.
"""

import json
import sys
from operator import attrgetter
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from numba import types
from numba.core import codegen, compiler, config
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from dllama_py.float_types import FloatType
from dllama_py.kernels import elementwise
from dllama_py.kernels.activations import decode_rows, encode_rows
from dllama_py.kernels.attention import attention
from dllama_py.kernels.dot4 import DOT4
from dllama_py.kernels.exchange import add_received, decode, encode
from dllama_py.kernels.features import IS_ARM
from dllama_py.kernels.heads import prepare_heads
from dllama_py.kernels.matmul import matmul, matmul_weighted
from dllama_py.kernels.program import Kernel
from tests.kernels.conversions import narrow, widen
from tests.kernels.hops import checksum
from tests.kernels.samples import is_whole_for, kinds_for

TRIPLE = "aarch64-unknown-linux-gnu" if IS_ARM else "x86_64-unknown-linux-gnu"
OF_ALL = [  # those of fingerprint.facts
    *map(matmul, kinds_for(DOT4.name)),
    elementwise.quantize,
    narrow,
    widen,
    encode_rows,
    decode_rows,
    checksum,
]
OF_OUTPUTS = [
    matmul_weighted(FloatType.Q40),
    elementwise.norm,
    elementwise.gated_hidden,
    elementwise.gelu_hidden,
    elementwise.clamped_hidden,
    elementwise.add_normed,
    elementwise.tree_sum,
    encode,
    decode,
    add_received,
    prepare_heads(half_cache=True, adjacent_pairs=True),
    prepare_heads(half_cache=True, adjacent_pairs=False),
    attention(half_cache=True),
]
KERNELS = [*OF_ALL, *(OF_OUTPUTS if is_whole_for(DOT4.name) else [])]


class OtherLibrary(codegen.AOTCodeLibrary):
    """Code that is kept as LLVM's and never called here."""

    def get_pointer_to_function(self, name: str) -> int:
        return 0


class OtherCodegen(codegen.AOTCPUCodegen):
    """numba's code generator with the target machine of another CPU."""

    _library_class = OtherLibrary

    def __init__(self, cpu: str, features: str) -> None:
        self._cpu, self._tm_features = cpu, features
        super().__init__("kernels")

    def _init(self, llvm_module: Any) -> None:
        self._tm = llvm.Target.from_triple(TRIPLE).create_target_machine(self._cpu, self._tm_features, opt=3)
        self._data_layout = str(self._tm.target_data)
        self._target_data = self._tm.target_data
        self._loopvect, self._opt_level = False, 0

    def _create_empty_module(self, name: str) -> Any:
        module = super()._create_empty_module(name)
        module.triple = TRIPLE
        return module

    def set_env(self, name: str, env: Any) -> None:
        """Nothing: compiled kernels know no Python objects."""


def cross_compile(cpu: str, features: str) -> OtherCodegen:
    """From now on numba compiles for that CPU."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    context = cpu_target.target_context
    context.refresh()  # numba's own runtime is code of this machine
    context._internal_codegen = OtherCodegen(cpu, features)
    return context._internal_codegen


@global_compiler_lock
def module_of(kernel: Kernel) -> tuple[str, Any]:
    """A kernel's function (result, error, arguments, thread, threads) -> status: its symbol, and its LLVM module."""
    flags = compiler.Flags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"
    contexts = cpu_target.typing_context, cpu_target.target_context
    result = compiler.compile_extra(*contexts, kernel._function, (types.intp,) * 3, types.void, flags, {})
    code, facts = attrgetter("library", "fndesc")(result)
    code._ensure_finalized()
    return facts.mangled_name, code._final_module


def table(symbols: list[str]) -> str:
    """LLVM's text of the table of kernels."""
    declared = "\n".join(f'declare i32 @"{symbol}"(ptr, ptr, i64, i64, i64)' for symbol in symbols)
    entries = ", ".join(f'ptr @"{symbol}"' for symbol in symbols)
    return f'target triple = "{TRIPLE}"\n{declared}\n@kernels = constant [{len(symbols)} x ptr] [{entries}]\n'


def main(cpu: str, folder: Path) -> None:
    features, config.CPU_FEATURES = config.CPU_FEATURES, None  # what numba's runtime uses is compiled for this CPU
    machine = cross_compile(cpu, features)._tm
    symbols, modules = zip(*map(module_of, KERNELS), strict=True)
    whole = llvm.parse_assembly(table(list(symbols)))
    for module in modules:
        whole.link_in(module, preserve=True)
    (folder / "kernels.o").write_bytes(machine.emit_object(whole))
    (folder / "kernels.s").write_text(machine.emit_assembly(whole))
    (folder / "kernels.json").write_text(json.dumps({"path": DOT4.name, "kernels": [k.name for k in KERNELS]}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
