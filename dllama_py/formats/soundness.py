"""A look at a model's weights before anything is loaded or compiled. Knows no format.

A model that broke in training or in a conversion seldom has one bad value only, so both ends of each tensor tell. What
hides between them is met while weights are quantised, or in the first logits.
"""

import numpy as np

from dllama_py.blocks import dequantize
from dllama_py.errors import InputError
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.formats.tensors import TensorSpec, tensor_specs

LOOK_ELEMENTS = 8192  # at each end: a twentieth of a second for a model of 300 tensors that was read before


def refuse_broken(checkpoint: Checkpoint) -> None:
    """InputError names a tensor that begins or ends with what is no finite number. Of experts the first is seen."""
    for spec in tensor_specs(checkpoint.config):
        if not spec.expert and not _is_finite(checkpoint, spec):
            raise InputError(
                f"{checkpoint.path}: {spec.name} holds a value that is infinite or not a number; expected finite ones: "
                "the file is damaged or the model broke in training; get it again"
            )
    checkpoint.release()


def _is_finite(checkpoint: Checkpoint, spec: TensorSpec) -> bool:
    n_rows, n_columns = spec.matrix_shape
    n_looked = min(n_rows, max(1, LOOK_ELEMENTS // n_columns))
    kind = checkpoint.float_type(spec)
    for start in {0, n_rows - n_looked}:
        with np.errstate(invalid="ignore", over="ignore"):
            if not np.isfinite(dequantize(checkpoint.read(spec, start, start + n_looked), kind)).all():
                return False
    return True
