# python -m pytest tests/formats/test_shapes.py
"""Known shapes: their sizes in a file, and wrong names."""

import pytest

from dllama_py.blocks import FloatType
from dllama_py.errors import UsageError
from dllama_py.formats.model_file import stored_type
from dllama_py.formats.shapes import SHAPES, shape_named
from dllama_py.formats.tensors import tensor_specs

Q40_BYTES = {  # without the header
    "llama3_1_8b_instruct": 6_323_781_632,
    "llama3_1_405b_instruct": 235_530_158_080,
    "llama3_2_1b_instruct": 1_746_051_072,
    "llama3_2_3b_instruct": 3_383_783_424,
    "llama3_3_70b_instruct": 43_302_682_624,
    "deepseek_r1_distill_llama_8b": 6_323_781_632,
    "qwen3_0.6b": 957_833_216,
    "qwen3_1.7b": 2_212_909_056,
    "qwen3_8b": 6_747_607_040,
    "qwen3_14b": 10_982_707_200,
    "qwen3_30b_a3b": 18_287_927_296,
    "smollm2_135m": 189_031_680,
}


def test_all_shapes_are_in_the_table():
    assert set(SHAPES) == set(Q40_BYTES)


@pytest.mark.parametrize("name", Q40_BYTES)
def test_sizes_in_q40(name):
    specs = tensor_specs(shape_named(name))
    sizes = [s.matrix_shape[0] * stored_type(s, FloatType.Q40).n_bytes(s.matrix_shape[1]) for s in specs]
    assert sum(sizes) == Q40_BYTES[name]


def test_smollm2_is_the_shape_of_its_file(smollm2_gguf):
    from dllama_py.formats.checkpoint import open_checkpoint

    assert open_checkpoint(smollm2_gguf).config == shape_named("smollm2_135m")


def test_dashes_count_as_underscores_and_layers_can_be_cut():
    config = shape_named("qwen3-0.6b", 2)
    assert config.n_layers == 2 and config.width == 1024


def test_an_unknown_name_lists_the_known():
    with pytest.raises(UsageError, match="no shape 'gpt2' is known; known are smollm2_135m, qwen3_0.6b, "):
        shape_named("gpt2")


@pytest.mark.parametrize("layers", [0, 29])
def test_more_layers_than_there_are(layers):
    with pytest.raises(UsageError, match=f"{layers} layers of qwen3_0.6b are wanted, it has 28; give 1 to 28"):
        shape_named("qwen3_0.6b", layers)
