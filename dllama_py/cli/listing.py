"""The catalogue as a table: size on disk, and what each node needs in memory on 1, 2, 4 and 8 nodes."""

from collections.abc import Sequence
from pathlib import Path

from dllama_py.blocks import FloatType
from dllama_py.cli.node_counts import NODE_COUNTS, needs
from dllama_py.cli.tables import table
from dllama_py.cluster.catalogue import CATALOGUE, KnownModel
from dllama_py.cluster.fetch import is_here
from dllama_py.cluster.registry import RegisteredModel, last_model, registered_models
from dllama_py.formats.shapes import SHAPES
from dllama_py.formats.tensors import tensor_specs
from dllama_py.settings import DEFAULT_CONTEXT


def listing(models_folder: Path) -> str:
    """Several lines."""
    heads = ("name", "on disk", *(f"{n} node{'s' * (n > 1)}" for n in NODE_COUNTS), "")
    rows = [_row(model, models_folder) for model in CATALOGUE]
    return "\n".join(
        (
            f"Known models in GB: on disk, and in each node's memory with a context of {DEFAULT_CONTEXT}",
            "",
            table(heads, rows),
            "",
            "python launch.py NAME fetches one and offers to start it; OWNER/REPO[:FILE]",
            "takes any GGUF or safetensors folder of a hub; `list` shows what is here,",
            "`remove NAME` deletes it. '*': fetched. '-': not on so many nodes. Models",
            "without numbers are started as a pipeline: each node has some of their layers",
            "(docs/pipeline.md).",
        )
    )


def fetched_listing() -> str:
    """The models on this machine, the default one marked."""
    models = registered_models()
    if not models:
        return "no model here yet; python launch.py shows what can be fetched"
    default = last_model()
    rows = [(model.name, _size_on_disk(model), "default" * (model.path == default), model.path) for model in models]
    return f"{table(('name', 'GB on disk', '', 'path'), rows, left=4)}\n\npython launch.py remove NAME deletes one."


def _size_on_disk(model: RegisteredModel) -> str:
    return _gb(sum(file.stat().st_size for file in model.files if file.exists()))


def memory_per_node(model: KnownModel, n_nodes: int) -> int | None:
    """Bytes of the node that needs most; None where so many nodes cannot share the model."""
    if model.shape is None:
        return None
    config = SHAPES[model.shape]
    kind = FloatType.named(model.weights)
    kinds = {spec.name: kind if spec.is_matrix else FloatType.F32 for spec in tensor_specs(config)}
    memories = needs(config, kinds, DEFAULT_CONTEXT, n_nodes, half_cache=True)
    return None if isinstance(memories, str) else max(memory.total_bytes for memory in memories)


def _row(model: KnownModel, models_folder: Path) -> Sequence[str]:
    most = [memory_per_node(model, n_nodes) for n_nodes in NODE_COUNTS]
    fetched = "*" if is_here(model, models_folder) else ""
    on_disk = f"{'' if model.shape else '~'}{_gb(model.n_bytes)}"
    return model.name, on_disk, *("-" if n is None else _gb(n) for n in most), fetched


def _gb(n_bytes: int) -> str:
    """Without the unit, with a digit that says something of small models too."""
    return f"{n_bytes / 1e9:.{1 if n_bytes >= 1e9 else 2}f}"
