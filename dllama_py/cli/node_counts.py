"""What a model needs on several numbers of nodes, from its sizes alone: no node is asked."""

from dllama_py.config import ModelConfig
from dllama_py.errors import UsageError
from dllama_py.model.memory import RankMemory, rank_memories
from dllama_py.sharding.kinds import Kinds
from dllama_py.sharding.plan import make_plan

NODE_COUNTS = (1, 2, 4, 8)


def needs(
    config: ModelConfig, kinds: Kinds, context: int, n_nodes: int, *, half_cache: bool, replicate_kv: bool = False
) -> list[RankMemory] | str:
    """Of every node, or the reason why so many cannot share the model."""
    try:
        shards = make_plan(config, n_nodes, replicate_kv)
    except UsageError as error:
        return str(error)
    return rank_memories(config, shards, kinds, context, half_cache)
