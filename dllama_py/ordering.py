"""From a model and a user's wishes to the root's orders. Nothing is measured or loaded yet."""

from collections.abc import Sequence

from dllama_py.config import ModelConfig
from dllama_py.errors import UsageError
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.formats.identity import LocalCopy, local_copy
from dllama_py.orders import Orders
from dllama_py.planning import plan_file
from dllama_py.planning.splits import read_split
from dllama_py.settings import DEFAULT_CONTEXT, EngineSettings
from dllama_py.sharding.grid import even_split, grid_shards, make_grid
from dllama_py.sharding.kinds import Kinds, halves_cache, tensor_kinds, weights_type


def orders_for(checkpoint: Checkpoint, settings: EngineSettings, hosts: Sequence[str]) -> Orders:
    """For the ranks on these hosts. UsageError or InputError for what cannot be, before anything is loaded."""
    config = checkpoint.config
    kinds = tensor_kinds(checkpoint, weights_type(checkpoint, settings.weights))
    context = min(settings.context or DEFAULT_CONTEXT, config.context_length)
    layer_counts = _layer_counts(config, kinds, settings, context, hosts)
    grid_shards(config, make_grid(config.n_layers, len(hosts), layer_counts), settings.replicate_kv)
    return Orders(
        config,
        kinds,
        context,
        settings.exchange,
        halves_cache(config, kinds, settings.cache_type),
        settings.replicate_kv,
        min(settings.chunk_rows, settings.n_slots * context),  # there are no more rows
        settings.n_slots,
        layer_counts,
        settings.pipeline.activations if settings.pipeline else "f32",
        _local_copy(checkpoint, settings) if len(layer_counts) > 1 else None,
        settings.pipeline is not None and settings.pipeline.plan_only,
        reads_memory=settings.reads_memory,
    )


def _local_copy(checkpoint: Checkpoint, settings: EngineSettings) -> LocalCopy | None:
    """Where ranks of a pipeline may find the model; None where they are not to look."""
    if settings.pipeline is None or settings.pipeline.local_copies == "off":
        return None
    return local_copy(checkpoint, settings.pipeline.local_copies == "strict")


def _layer_counts(
    config: ModelConfig, kinds: Kinds, settings: EngineSettings, context: int, hosts: Sequence[str]
) -> tuple[int, ...]:
    """Of each stage, until the ranks are measured; of one stage where every rank has all layers."""
    pipeline = settings.pipeline
    if pipeline is None:
        return (config.n_layers,)
    if pipeline.plan is not None:
        saved = plan_file.read(pipeline.plan)
        plan_file.check(saved, pipeline.plan, config, kinds, hosts)
        plan_file.check_settings(saved, pipeline.plan, context, settings.n_slots)
        return saved.counts
    n_stages = pipeline.n_stages or len(hosts)
    if n_stages == 1 and (pipeline.plan_only or pipeline.save_plan):
        raise UsageError("a plan of one stage says nothing; start more ranks (mpirun -np N), or leave --stages out")
    return read_split(pipeline.split, config.n_layers, n_stages) or even_split(config.n_layers, n_stages)
