"""Mode `inspect`: what a model file holds, and what it needs on 1, 2, 4 and 8 nodes. Needs neither MPI nor numba."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dllama_py.cli.node_counts import NODE_COUNTS, needs
from dllama_py.cli.options import MODEL_HELP, Parser, add_json_option, positive
from dllama_py.cli.tables import table
from dllama_py.cluster.registry import find_model
from dllama_py.config import ModelConfig
from dllama_py.formats.checkpoint import Checkpoint, open_checkpoint
from dllama_py.formats.tensors import tensor_specs
from dllama_py.model.memory import RankMemory
from dllama_py.settings import CACHE_TYPES, DEFAULT_CONTEXT, WEIGHT_TYPES
from dllama_py.sharding.kinds import Kinds, halves_cache, tensor_kinds, weights_type
from dllama_py.sizes import megabytes, size

EPILOG = """examples:
  python -m dllama_py inspect dllama_model_qwen3_0.6b_q40.m
  python -m dllama_py inspect models/Qwen3-0.6B --weights q80 --max-seq-len 32768 --json"""


def add_options(parser: Parser) -> None:
    parser.epilog, parser.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    parser.add_argument("file", type=Path, metavar="FILE", help=MODEL_HELP)
    parser.add_argument("--weights", choices=WEIGHT_TYPES, help="how a Hugging Face folder is quantised (default: q40)")
    parser.add_argument("--max-seq-len", type=positive, metavar="N", help="context in tokens (default: 4096 at most)")
    parser.add_argument(
        "--kv-cache-type", choices=CACHE_TYPES, default="auto", help="auto: f32 for f32 weights, else f16"
    )
    parser.add_argument("--replicate-kv", action="store_true", help="allow more nodes than KV heads")
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    checkpoint = open_checkpoint(find_model(arguments.file))
    kinds = tensor_kinds(checkpoint, weights_type(checkpoint, arguments.weights))
    half = halves_cache(checkpoint.config, kinds, arguments.kv_cache_type)
    context = min(arguments.max_seq_len or DEFAULT_CONTEXT, checkpoint.config.context_length)
    facts = {
        "path": str(checkpoint.path),
        "format": _format(checkpoint),
        "file_bytes": checkpoint.file_bytes,
        "config": json.loads(checkpoint.config.to_json()),
        "notes": list(checkpoint.notes),
        "tensors": _tensor_groups(checkpoint, kinds),
        "tied": checkpoint.is_tied,
        "context": context,
        "kv_cache_type": "f16" if half else "f32",
        "nodes": [
            _told(n, needs(checkpoint.config, kinds, context, n, half_cache=half, replicate_kv=arguments.replicate_kv))
            for n in NODE_COUNTS
        ],
    }
    print(json.dumps(facts) if arguments.json else _page(facts, checkpoint.config))
    return 0


def _format(checkpoint: Checkpoint) -> str:
    if checkpoint.path.is_dir():
        return "folder"
    return "gguf" if checkpoint.metadata else "m"


def _tensor_groups(checkpoint: Checkpoint, kinds: Kinds) -> list[dict[str, Any]]:
    """Tensors of one role, shape and type together, in file order; `type` in the file, `memory_type` once loaded."""
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    for spec in tensor_specs(checkpoint.config):
        kind = checkpoint.float_type(spec)
        rows, columns = spec.matrix_shape
        memory_type = kinds.get(spec.name, kind).label
        group = groups.setdefault(
            (spec.role, spec.shape, kind, memory_type),
            {"role": spec.role, "count": 0, "shape": list(spec.shape), "type": kind.label, "memory_type": memory_type,
             "bytes": 0},
        )  # fmt: skip
        group["count"] += 1
        group["bytes"] += rows * kind.n_bytes(columns)
    return list(groups.values())


def _told(n_nodes: int, memories: list[RankMemory] | str) -> dict[str, Any]:
    if isinstance(memories, str):
        return {"nodes": n_nodes, "reason": memories}
    return {"nodes": n_nodes, "per_node": [asdict(memory) | {"total_bytes": memory.total_bytes} for memory in memories]}


def _page(facts: dict[str, Any], config: ModelConfig) -> str:
    parts = [
        f"{facts['path']}: {_FORMATS[facts['format']]}, {size(facts['file_bytes'])}",
        *facts["notes"],
        "",
        table(("model", ""), _config_rows(config), left=2),
        "",
        table(
            ("tensor", "shape", "type", "in memory", "count", "MB"),
            _tensor_rows(facts["tensors"], facts["tied"]),
            left=4,
        ),
        *(["the head is the embedding table, stored once"] if facts["tied"] else []),
        "",
        f"MB each node needs at most, for a context of {facts['context']} and an {facts['kv_cache_type']} KV cache:",
        table(("nodes", "weights", "KV cache", "buffers", "program", "total"), _needs_rows(facts["nodes"])),
        *(f"not on {told['nodes']}: {told['reason']}" for told in facts["nodes"] if "reason" in told),
    ]
    return "\n".join(parts)


_FORMATS = {"folder": "Hugging Face folder", "gguf": "GGUF file", "m": ".m file"}


def _config_rows(config: ModelConfig) -> list[tuple[str, object]]:
    c = config
    rows: list[tuple[str, object]] = [
        ("architecture", c.arch),
        ("layers", c.n_layers),
        ("width", c.width),
        ("heads", f"{c.n_heads} over {c.n_kv_heads} KV heads, {c.head_width} wide"),
        ("feed-forward", c.hidden_width),
        ("vocabulary", c.vocab_size),
        ("context", f"{c.context_length} tokens"),
        ("norm epsilon", f"{c.norm_epsilon:g}"),
        ("RoPE base", f"{c.rope_theta:.12g}"),
    ]
    if c.n_experts:
        rows.append(("experts", f"{c.n_experts}, {c.n_active_experts} active"))
    if c.shared_width:
        rows.append(("shared expert", c.shared_width))
    if c.rope_scaling:
        rows.append(("RoPE scaling", c.rope_scaling.description))
    return rows


def _tensor_rows(groups: list[dict[str, Any]], is_tied: bool) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for group in groups:
        shape = " x ".join(map(str, group["shape"]))
        in_memory = "in the file" if group["role"] == "embedding" else group["memory_type"]
        rows.append((group["role"], shape, group["type"], in_memory, group["count"], megabytes(group["bytes"])))
    counted = [group for group in groups if not (is_tied and group["role"] == "head")]  # stored once
    n_tensors, n_bytes = sum(group["count"] for group in counted), sum(group["bytes"] for group in counted)
    return [*rows, ("all", "", "", "", n_tensors, megabytes(n_bytes))]


def _needs_rows(all_needs: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    keys = ("weights_bytes", "cache_bytes", "buffers_bytes", "python_bytes", "total_bytes")
    return [
        (told["nodes"], *(megabytes(max(node[key] for node in told["per_node"])) for key in keys))
        for told in all_needs
        if "per_node" in told
    ]
