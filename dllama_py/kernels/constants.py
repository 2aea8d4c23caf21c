"""Numbers known at compile time, as types: `constant(8)` has the type Constant(8).

numba passes plain integers on as run-time values. A function that is given a Constant is compiled anew for each
number, so that one text serves every weights type and tile height, and `number_of(c)` folds to the number.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.datamodel import models, register_default
from numba.extending import intrinsic, overload

from dllama_py.kernels.subroutines import OPTIONS


class Constant(types.Type):
    """The type of one number."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(name=f"Constant({number})")


@register_default(Constant)
class _NothingModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, ir.IntType(8))


@intrinsic
def constant(typingctx: Any, number: Any) -> Any:
    """A literal integer as a Constant."""

    if not isinstance(number, types.IntegerLiteral):
        return None  # numba asks for the plain type too

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(8), 0)

    return Constant(number.literal_value)(number), codegen


def number_of(constant):
    """The number of a Constant; only inside compiled code."""
    raise RuntimeError("number_of runs in compiled code only")


@overload(number_of, jit_options=OPTIONS)
def _number_of(constant):
    number = constant.number
    return lambda constant: number
