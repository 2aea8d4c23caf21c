# python -m pytest tests/cluster/test_catalogue.py
from pathlib import Path

import pytest

from dllama_py.blocks import FloatType
from dllama_py.cluster.catalogue import CATALOGUE, HubParts, find
from dllama_py.errors import UsageError
from dllama_py.formats.model_file import stored_type
from dllama_py.formats.shapes import SHAPES
from dllama_py.formats.tensors import tensor_specs

ANCESTORS = [model for model in CATALOGUE if isinstance(model.source, HubParts)]


def test_the_models_of_distributed_llama_under_its_names() -> None:
    assert sorted(model.name for model in ANCESTORS) == [
        "deepseek_r1_distill_llama_8b_q40",
        "llama3_1_405b_instruct_q40",
        "llama3_1_8b_instruct_q40",
        "llama3_2_1b_instruct_q40",
        "llama3_2_3b_instruct_q40",
        "llama3_3_70b_instruct_q40",
        "qwen3_0.6b_q40",
        "qwen3_1.7b_q40",
        "qwen3_14b_q40",
        "qwen3_30b_a3b_q40",
        "qwen3_8b_q40",
    ]


@pytest.mark.parametrize(
    ("name", "count", "repository", "first", "last", "tokenizer"),
    [
        (
            "llama3_1_405b_instruct_q40",
            56,
            "b4rtaz/Llama-3_1-405B-Q40-Instruct-Distributed-Llama",
            "dllama_model_llama31_405b_q40_aa",
            "dllama_model_llama31_405b_q40_cd",
            "dllama_tokenizer_llama_3_1.t",
        ),
        (
            "llama3_3_70b_instruct_q40",
            11,
            "b4rtaz/Llama-3_3-70B-Q40-Instruct-Distributed-Llama",
            "dllama_model_llama-3.3-70b_q40aa",
            "dllama_model_llama-3.3-70b_q40ak",
            "dllama_tokenizer_llama-3.3-70b.t",
        ),
        (
            "qwen3_14b_q40",
            2,
            "b4rtaz/Qwen3-14B-Q40-Distributed-Llama",
            "dllama_model_qwen3_14b_q40_aa",
            "dllama_model_qwen3_14b_q40_ab",
            "dllama_tokenizer_qwen3_14b.t",
        ),
        (
            "qwen3_30b_a3b_q40",
            5,
            "b4rtaz/Qwen3-30B-A3B-Q40-Distributed-Llama",
            "dllama_model_qwen3_30b_a3b_aa",
            "dllama_model_qwen3_30b_a3b_ae",
            "dllama_tokenizer_qwen3_30b_a3b.t",
        ),
        (
            "deepseek_r1_distill_llama_8b_q40",
            1,
            "b4rtaz/DeepSeek-R1-Distill-Llama-8B-Distributed-Llama",
            "dllama_model_deepseek-r1-distill-llama-8b_q40.m",
            "dllama_model_deepseek-r1-distill-llama-8b_q40.m",
            "dllama_tokenizer_deepseek-r1-distill-llama-8b.t",
        ),
    ],
)
def test_where_they_lie(name: str, count: int, repository: str, first: str, last: str, tokenizer: str) -> None:
    source = find(name).source
    assert isinstance(source, HubParts)
    assert (source.repository, source.tokenizer) == (repository, tokenizer)
    assert (len(source.parts), source.parts[0], source.parts[-1]) == (count, first, last)


@pytest.mark.parametrize("model", ANCESTORS, ids=lambda model: model.name)
def test_their_sizes_follow_from_their_shapes(model) -> None:
    counted = sum(
        spec.matrix_shape[0] * stored_type(spec, FloatType.Q40).n_bytes(spec.matrix_shape[1])
        for spec in tensor_specs(SHAPES[model.shape])
    )
    assert counted == model.n_bytes


def test_names_take_dashes_for_underscores() -> None:
    assert find("smollm2-135m").name == "smollm2_135m"
    assert find("qwen2-57b-a14b").name == "qwen2_57b_a14b"
    assert find("Qwen3-0.6B").name == "qwen3_0.6b_q40", "one type is known"
    with pytest.raises(UsageError, match=r"; did you mean qwen3_0.6b_q40\?$"):
        find("Qwen3-0.6b-q4")
    with pytest.raises(UsageError, match=r"no model 'llama' .*OWNER/REPO\[:FILE\].*smollm2_135m"):
        find("llama")


def test_the_default_model_is_the_file_it_should_be(smollm2_gguf: Path) -> None:
    assert smollm2_gguf.stat().st_size == 98_362_432
