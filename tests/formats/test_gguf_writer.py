# python -m pytest tests/formats/test_gguf_writer.py
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dllama_py.blocks import FloatType
from dllama_py.config import ModelConfig
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.formats.gguf_writer import write_gguf
from dllama_py.formats.tensors import tensor_specs
from tests.checkpoints import NAMES, tiny_model_file


@pytest.mark.parametrize("name", NAMES)
def test_the_copy_is_the_same_model(name: str, tmp_path: Path) -> None:
    source = open_checkpoint(tiny_model_file(tmp_path / "source.m", name, FloatType.Q40, distinct=True))
    write_gguf(source, tmp_path / "copy.gguf")
    copy = open_checkpoint(tmp_path / "copy.gguf")
    assert without_fractions(copy.config) == without_fractions(source.config)
    assert np.float32(copy.config.norm_epsilon) == np.float32(source.config.norm_epsilon)
    scaling, factors = source.config.rope_scaling, copy.config.rope_factors
    if scaling is not None:
        divisors = scaling.divisors(source.config.rope_theta, source.config.head_width)
        assert factors is not None and np.array_equal(np.float32(factors), np.float32(divisors))
    for spec in tensor_specs(source.config):
        n_rows = spec.matrix_shape[0]
        assert copy.float_type(spec) == source.float_type(spec), spec.name
        assert np.array_equal(copy.read(spec, 0, n_rows), source.read(spec, 0, n_rows)), spec.name


def without_fractions(config: ModelConfig) -> ModelConfig:
    """Facts that a GGUF keeps as they are; the others become float32, and a scaling of RoPE its factors."""
    return replace(config, norm_epsilon=0, rope_scaling=None, rope_factors=None)
