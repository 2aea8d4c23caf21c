"""qwen3_moe: the attention of qwen3, a mixture of experts for feed-forward."""

from collections.abc import Iterator

from dllama_py.model.layers import Layers, Part


def layer(layers: Layers, number: int) -> Iterator[Part]:
    yield from layers.attention(number)
    yield from layers.mixture_of_experts(number)
