"""Ways to spoil a Hugging Face folder, and to look at what is read from one."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from dllama_py.blocks import dequantize
from dllama_py.errors import InputError
from dllama_py.formats.checkpoint import Checkpoint, open_checkpoint
from dllama_py.formats.tensors import tensor_specs

INDEX = "model.safetensors.index.json"
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def matrix(checkpoint: Checkpoint, name: str) -> np.ndarray:
    spec = next(spec for spec in tensor_specs(checkpoint.config) if spec.name == name)
    return dequantize(checkpoint.read(spec, 0, spec.matrix_shape[0]), checkpoint.float_type(spec))


def save(path: Path, dtype: str = "F32", **tensors: np.ndarray) -> None:
    """A shard by hand; every array's bytes as they are."""
    header, offset = {}, 0
    for name, values in tensors.items():
        end = offset + values.nbytes
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(values.tobytes() for values in tensors.values()))


def edit_index(folder: Path, **weight_map: str | None) -> None:
    index = json.loads((folder / INDEX).read_text())
    changed = index["weight_map"] | weight_map
    index["weight_map"] = {name: shard for name, shard in changed.items() if shard is not None}
    (folder / INDEX).write_text(json.dumps(index))


def add_tensor(folder: Path, name: str, values: np.ndarray, dtype: str = "F32") -> None:
    save(folder / "more.safetensors", dtype, **{name: values})
    edit_index(folder, **{name: "more.safetensors"})


def refused(folder: Path, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        open_checkpoint(folder)
    assert "\n" not in str(caught.value)
