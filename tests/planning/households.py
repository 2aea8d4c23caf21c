"""Models and machines that tests plan for."""

from dataclasses import replace

from dllama_py.blocks import FloatType
from dllama_py.config import Arch, ModelConfig
from dllama_py.cost_model import Link
from dllama_py.formats.shapes import shape_named
from dllama_py.formats.tensors import Cut, tensor_specs
from dllama_py.memory_plan import NodeFacts
from dllama_py.planning.speeds import KindSpeed, RankSpeed
from dllama_py.planning.wishes import Links, Node, Wishes
from dllama_py.sharding.kinds import Kinds
from dllama_py.transport.hosts import Host

GB = 1_000_000_000
LAN = Link(150e-6, 117e6)


def wishes(config: ModelConfig, **others: object) -> Wishes:
    return replace(Wishes("model.gguf", 4096, True, 4 * config.width), **others)  # type: ignore[arg-type]


def kinds_of(config: ModelConfig, kind: FloatType = FloatType.Q40) -> Kinds:
    return {
        spec.name: kind if spec.is_matrix else FloatType.F32
        for spec in tensor_specs(config)
        if spec.cut is not Cut.ROOT
    }


def node(host: str, gb_s: float, free_gb: float | None = 64.0, gmac_s: float | None = None) -> Node:
    """A rank that reads weights of any type at so many GB/s; its arithmetic is ten times that unless told."""
    speed = KindSpeed(gb_s * 1e9, (gmac_s or 10 * gb_s) * 1e9)
    facts = NodeFacts(Host.named(host), 4, None if free_gb is None else int(free_gb * GB), None)
    return Node(facts, RankSpeed(dict.fromkeys(FloatType, speed), 20e-6, 10e-6, 0.5e-3))


def equal_nodes(count: int, gb_s: float = 20.0, free_gb: float = 64.0) -> list[Node]:
    return [node(f"host{rank}", gb_s, free_gb) for rank in range(count)]


def switch(count: int, link: Link = LAN) -> Links:
    """Every host on the same switch."""
    return [[link] * count for _ in range(count)]


def mixtral(n_layers: int, width: int, ffn_width: int, n_heads: int) -> ModelConfig:
    """In the shape of Mixtral: eight experts, two of them active."""
    return replace(
        shape_named("llama3_1_8b_instruct"),
        width=width,
        n_layers=n_layers,
        n_heads=n_heads,
        vocab_size=32000,
        n_experts=8,
        n_active_experts=2,
        expert_width=ffn_width,
        rope_scaling=None,
    )


CATALOGUE = {  # the four models for pipelines: DeepSeek R1 Distill 14B, Mixtral 8x7B, Qwen2 57B A14B, Mixtral 8x22B
    "deepseek_r1_distill_14b": replace(
        shape_named("qwen3_14b"), arch=Arch.LLAMA, n_layers=48, ffn_width=13824, vocab_size=152064
    ),
    "mixtral_8x7b": mixtral(32, 4096, 14336, 32),
    "qwen2_57b_a14b": replace(
        shape_named("qwen3_30b_a3b"), width=3584, n_layers=28, n_heads=28, n_experts=64, expert_width=2560
    ),
    "mixtral_8x22b": mixtral(56, 6144, 16384, 48),
}
