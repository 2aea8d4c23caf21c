"""What is about to be loaded, in lines for the user: the model, the slice of each rank, and what may be slow."""

from collections.abc import Iterator, Sequence

from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.formats.tensors import tensor_specs
from dllama_py.memory_plan import NodeFacts
from dllama_py.orders import Orders
from dllama_py.sharding.plan import Shard
from dllama_py.transport.hosts import Host


def model_lines(checkpoint: Checkpoint, orders: Orders) -> Iterator[str]:
    """Which model it is, then what the reader of the file has to say."""
    c = orders.config
    types = sorted({orders.kinds[spec.name].label for spec in tensor_specs(c) if spec.is_matrix})
    yield f"{checkpoint.path.name}: {c.arch}, weights {' '.join(types)}, context {orders.context} of {c.context_length}"
    yield from checkpoint.notes


def shape_line(orders: Orders) -> str:
    """The rest of what decides the answer."""
    c = orders.config
    n_windowed = sum(window > 0 for window in c.windows)
    windows = f", {n_windowed} layers see {max(c.windows)} positions" if n_windowed else ""
    experts = f", {c.n_experts} experts of which {c.n_active_experts} are active" if c.n_experts else ""
    shared = f" and a shared one of {c.shared_width}" if c.shared_width else ""
    scaling = f", RoPE scaling {c.rope_scaling.description}" if c.rope_scaling else ""
    return (
        f"{c.n_layers} layers, width {c.width}, {c.n_heads} heads over {c.n_kv_heads} KV heads of {c.head_width}, "
        f"feed-forward {c.hidden_width}{experts}{shared}, vocabulary {c.vocab_size}{windows}, "
        f"RoPE base {c.rope_theta:.12g}{scaling}; cache {'f16' if orders.half_cache else 'f32'}, "
        f"exchange {orders.exchange}"
    )


def slice_lines(shards: Sequence[Shard]) -> Iterator[str]:
    """One a rank; none where one rank has everything."""
    for rank, shard in enumerate(shards if len(shards) > 1 else []):
        parts = []
        if not (shard.has_head and shard.layers.start == 0):
            parts.append(f"layers {_span(shard.layers)}")
        if shard.n_ranks > 1:
            parts += [f"query heads {_span(shard.heads)}", f"KV heads {_span(shard.kv_heads)}"]
            parts += [f"feed-forward columns {_span(shard.hidden)}", f"vocabulary {_span(shard.vocab)}"]
        yield f"rank {rank}: {', '.join(parts) or 'all layers'}"


def warning_lines(facts: Sequence[NodeFacts]) -> Iterator[str]:
    """One for each rank that reports a warning."""
    for rank, node in enumerate(facts):
        if node.warning:
            yield f"warning: rank {rank} on {node.host}: {node.warning}"


def same_name_lines(hosts: Sequence[Host]) -> Iterator[str]:
    """One for each name that several machines have."""
    machines = {host: rank for rank, host in reversed(list(enumerate(hosts)))}
    for name in dict.fromkeys(host.name.partition(" ")[0] for host in machines):
        alike = {rank: host for host, rank in machines.items() if host.name.partition(" ")[0] == name}
        if len(alike) > 1:
            where = ", ".join(f"rank {rank} on {host}" for rank, host in sorted(alike.items()))
            copied = len({host.machine_id for host in alike.values()}) < len(alike)
            also = ", and machine ids are equal, as on copied cards" if copied else ""
            yield f"{len(alike)} machines are called {name}: {where}{also}; sudo hostnamectl hostname NAME names one"


def kernel_lines(notes: Sequence[tuple[str, str]]) -> Iterator[str]:
    """One for each rank whose compiled kernels are not where they belong, from its host and what it says."""
    for rank, (host, note) in enumerate(notes):
        if note:
            yield f"note: rank {rank} on {host}: {note}"


def _span(part: range) -> str:
    if len(part) < 2:
        return str(part.start) if part else "none"
    return f"{part.start}-{part.stop - 1} ({len(part)})"
