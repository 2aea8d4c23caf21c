# python -m pytest tests/formats/test_synthetic.py
"""Random weights: the same whoever reads them, in whatever pieces, small and finite."""

import numpy as np
import pytest

from dllama_py.blocks import FloatType, dequantize
from dllama_py.errors import UsageError
from dllama_py.formats.checkpoint import Checkpoint, Embedding
from dllama_py.formats.shapes import shape_named
from dllama_py.formats.synthetic import SyntheticCheckpoint
from dllama_py.formats.tensors import TensorSpec, tensor_specs

CONFIG = shape_named("qwen3_0.6b", 2)
KINDS = list(FloatType)


def spec_of(name: str) -> TensorSpec:
    return next(spec for spec in tensor_specs(CONFIG) if spec.name == name)


def values(checkpoint: Checkpoint, name: str, start: int, stop: int) -> np.ndarray:
    spec = spec_of(name)
    return dequantize(checkpoint.read(spec, start, stop), checkpoint.float_type(spec))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.label)
def test_every_tensor_has_its_shape_and_sane_values(kind):
    checkpoint = SyntheticCheckpoint(CONFIG, kind)
    for spec in tensor_specs(CONFIG):
        rows, columns = min(spec.matrix_shape[0], 64), spec.matrix_shape[1]
        read = values(checkpoint, spec.name, 0, rows)
        assert read.shape == (rows, columns)
        if len(spec.shape) == 1:
            assert (read == 1).all()
        else:
            assert 0.018 < read.std() < 0.022 and abs(read).max() < 0.2


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.label)
def test_pieces_and_the_whole_are_the_same(kind):
    name = "layers.1.down"
    whole = values(SyntheticCheckpoint(CONFIG, kind), name, 0, 1024)  # three times the tile and more
    again = SyntheticCheckpoint(CONFIG, kind)
    parts = [values(again, name, start, min(start + 300, 1024)) for start in (900, 600, 300, 0)]
    assert np.array_equal(np.concatenate(parts[::-1]), whole)


def test_rows_tensors_and_layers_differ():
    checkpoint = SyntheticCheckpoint(CONFIG, FloatType.Q40)
    rows = values(checkpoint, "layers.0.gate", 0, 3072)
    assert len(np.unique(rows, axis=0)) == 3072
    assert not np.array_equal(rows[:8], values(checkpoint, "layers.1.gate", 0, 8))
    assert not np.array_equal(rows[:8], values(checkpoint, "layers.0.up", 0, 8))


def test_matrices_have_the_type_asked_for_and_the_embedding_is_f32():
    checkpoint = SyntheticCheckpoint(CONFIG, FloatType.Q80, "qwen3_0.6b")
    assert checkpoint.float_type(spec_of("head")) is FloatType.Q80
    assert checkpoint.float_type(spec_of("embedding")) is FloatType.F32
    assert Embedding(checkpoint).rows([5, 151_935]).shape == (2, 1024)
    assert not checkpoint.path.exists()


def test_types_whose_blocks_do_not_fit_the_shape():
    message = "has rows of 576, which are not whole q4_k blocks of 256; take another shape or type"
    with pytest.raises(UsageError, match=message):
        SyntheticCheckpoint(shape_named("smollm2_135m", 1), FloatType.Q4K)
