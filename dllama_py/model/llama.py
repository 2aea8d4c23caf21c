"""llama (also Mistral, SmolLM2 and other models of that shape): plain attention, dense feed-forward."""

from collections.abc import Iterator

from dllama_py.model.layers import Layers, Part


def layer(layers: Layers, number: int) -> Iterator[Part]:
    yield from layers.attention(number)
    yield from layers.dense_feed_forward(number)
