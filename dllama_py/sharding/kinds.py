"""Which type every tensor has in memory. Needs no compiled code, so that `inspect` can ask too."""

from dllama_py.blocks import FloatType
from dllama_py.config import ModelConfig
from dllama_py.errors import UsageError
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.formats.tensors import Cut, tensor_specs

Kinds = dict[str, FloatType]  # by name of the tensor


def weights_type(checkpoint: Checkpoint, wanted: str | None) -> FloatType | None:
    """A folder is quantised, to q40 unless told otherwise; files keep the types they were written with (None).

    UsageError if another type is wanted of a file.
    """
    if checkpoint.path.is_dir():
        return FloatType.named(wanted or "q40")
    if wanted is not None:
        raise UsageError(
            f"--weights {wanted} is for Hugging Face folders; {checkpoint.path} keeps the types it was written with "
            "(leave --weights out, or convert the folder anew)"
        )
    return None


def tensor_kinds(checkpoint: Checkpoint, wanted: FloatType | None) -> Kinds:
    """The type of every distributed tensor in memory: the file's, `wanted` for matrices where given, f32 for others."""
    kinds = {}
    for spec in tensor_specs(checkpoint.config):
        if spec.cut is not Cut.ROOT:
            kinds[spec.name] = (wanted or checkpoint.float_type(spec)) if spec.is_matrix else FloatType.F32
    return kinds


def halves_cache(config: ModelConfig, kinds: Kinds, cache_type: str) -> bool:
    """Whether the KV cache is f16: as --kv-cache-type says; of `auto`, unless all matrices are f32."""
    if cache_type != "auto":
        return cache_type == "f16"
    return not all(kinds[spec.name] is FloatType.F32 for spec in tensor_specs(config) if spec.is_matrix)
