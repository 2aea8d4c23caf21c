"""Mode `plan`: which layers would go to which of N nodes, from headers alone. Needs neither MPI nor numba."""

import argparse
import json
import re
from dataclasses import replace
from pathlib import Path

from dllama_py.blocks import FloatType
from dllama_py.cli import options
from dllama_py.cli.plan_table import plan_page
from dllama_py.cluster.free_memory import free_memory
from dllama_py.cluster.hostfile import rank_hosts, read_hostfile
from dllama_py.errors import UsageError
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.formats.shapes import shape_named
from dllama_py.formats.synthetic import SyntheticCheckpoint
from dllama_py.model.memory import ASSUMED_THREADS
from dllama_py.planning import plan_file
from dllama_py.planning.assumed import assumed_links, assumed_node
from dllama_py.planning.deciding import decide
from dllama_py.planning.plan import Plan
from dllama_py.planning.splits import AUTO, read_split
from dllama_py.planning.wishes import Node, Wishes
from dllama_py.settings import CACHE_TYPES, DEFAULT_CHUNK_ROWS, DEFAULT_CONTEXT, WEIGHT_TYPES
from dllama_py.sharding.kinds import Kinds, halves_cache, tensor_kinds, weights_type

EPILOG = """examples:
  python -m dllama_py plan --model mixtral-8x7b-instruct.Q4_K_M.gguf --nodes 4
  python -m dllama_py plan --model model.gguf --hostfile hostfile --node-memory 8GB --split 6:4 --json
  python -m dllama_py plan --shape llama3_3_70b_instruct --nodes 8 --node-memory 16GB
Nodes are assumed to be alike: a run measures them (docs/pipeline.md)."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]?)B?", re.ASCII)
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def add_options(parser: options.Parser) -> None:
    parser.epilog, parser.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", type=Path, metavar="PATH", help=".m file, GGUF file or Hugging Face folder")
    parser.add_argument("--shape", metavar="NAME", help="a known model's sizes, no file needed")
    parser.add_argument("--layers", type=options.positive, metavar="N", help="with --shape: only so many layers")
    parser.add_argument("--weights", choices=WEIGHT_TYPES, help="of a Hugging Face folder or a --shape (default: q40)")
    parser.add_argument("--max-seq-len", type=options.positive, metavar="N", help="context (default: 4096 at most)")
    parser.add_argument(
        "--kv-cache-type", choices=CACHE_TYPES, default="auto", help="auto: f32 for f32 weights, else f16"
    )
    parser.add_argument(
        "--chunk", type=options.positive, default=DEFAULT_CHUNK_ROWS, metavar="N", help="prompt tokens at once, at most"
    )
    group = parser.add_argument_group("nodes")
    group.add_argument("--nodes", type=options.positive, metavar="N", help="how many (default: 2)")
    group.add_argument("--hostfile", type=Path, metavar="FILE", help="as many as it offers ranks, by their names")
    group.add_argument(
        "--node-memory", type=_bytes, metavar="SIZE", help="of each machine, as 7.5GB (default: free here)"
    )
    group.add_argument("--node-speed", type=_above_0, default=20.0, metavar="GB/S", help="of its memory (default: 20)")
    group.add_argument("--link", type=_above_0, default=1000.0, metavar="MBIT", help="between nodes (default: 1000)")
    group.add_argument("--stages", type=options.positive, metavar="N", help="default: one a node")
    group.add_argument("--split", default=AUTO, metavar="SPLIT", help="auto (default), 12,8,8 layers, or 6:4")
    group.add_argument("--plan", type=Path, metavar="F.json", help="the split of a saved plan")
    group.add_argument("--save-plan", type=Path, metavar="F.json", help="write the plan down")
    options.add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    plan = _plan(arguments, _node_count(arguments))
    if arguments.save_plan:
        plan_file.save(plan, arguments.save_plan)
    print(json.dumps(plan_file.as_json(plan)) if arguments.json else plan_page(plan))
    return 0


def _plan(arguments: argparse.Namespace, n_nodes: int) -> Plan:
    checkpoint, kinds = _model(arguments)
    config = checkpoint.config
    width = _width(n_nodes, arguments.stages)
    if not arguments.plan:
        read_split(arguments.split, config.n_layers, n_nodes // width)  # refused before a million nodes are thought of
    nodes = _nodes(arguments, n_nodes)
    wishes = Wishes(
        model=checkpoint.path.name,
        context=min(arguments.max_seq_len or DEFAULT_CONTEXT, config.context_length),
        half_cache=halves_cache(config, kinds, arguments.kv_cache_type),
        row_bytes=4 * config.width,
        split=arguments.split,
        width=width,
        chunk_rows=min(arguments.chunk, config.context_length),
    )
    if arguments.plan:
        saved = plan_file.read(arguments.plan)
        plan_file.check(saved, arguments.plan, config, kinds, [node.facts.host.name for node in nodes])
        wishes = replace(wishes, split=",".join(map(str, saved.counts)), width=len(saved.stages[0].ranks))
    links = assumed_links(n_nodes, arguments.link * 1e6)
    return replace(decide(wishes, config, kinds, nodes, links), is_measured=False)


def _model(arguments: argparse.Namespace) -> tuple[Checkpoint, Kinds]:
    if arguments.shape and arguments.model:
        raise UsageError("--shape and --model exclude each other; give one of them")
    if arguments.layers and not arguments.shape:
        raise UsageError("--layers cuts a --shape short; a --model keeps its layers")
    if arguments.shape:
        kind = FloatType.named(arguments.weights or "q40")
        synthetic = SyntheticCheckpoint(shape_named(arguments.shape, arguments.layers), kind, arguments.shape)
        return synthetic, tensor_kinds(synthetic, None)
    checkpoint = options.open_model(arguments)
    return checkpoint, tensor_kinds(checkpoint, weights_type(checkpoint, arguments.weights))


def _node_count(arguments: argparse.Namespace) -> int:
    if arguments.hostfile is None:
        return arguments.nodes or 2
    offered = sum(host.n_ranks for host in read_hostfile(arguments.hostfile))
    if (arguments.nodes or offered) > offered:
        raise UsageError(f"--nodes {arguments.nodes}: {arguments.hostfile} offers {offered}")
    return arguments.nodes or offered


def _nodes(arguments: argparse.Namespace, count: int) -> list[Node]:
    memory = free_memory().shared_bytes if arguments.node_memory is None else arguments.node_memory
    if arguments.hostfile is None:
        names = [f"node{rank}" for rank in range(count)]
    else:
        names = rank_hosts(read_hostfile(arguments.hostfile))[:count]
    return [assumed_node(name, memory, arguments.node_speed * 1e9, ASSUMED_THREADS) for name in names]


def _width(n_nodes: int, n_stages: int | None) -> int:
    """Ranks of a stage."""
    if n_stages is not None and n_nodes % n_stages:
        raise UsageError(f"--stages {n_stages}: {n_nodes} nodes do not divide into them; expected a divisor")
    return n_nodes // (n_stages or n_nodes)


def _bytes(text: str) -> int:
    """'7.5GB' -> 7500000000, as a type for argparse."""
    matched = _SIZE.fullmatch(text.strip())
    if matched is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; expected as 8GB, 7.5GB or 900MB")
    return int(float(matched[1]) * _UNITS[matched[2]])


def _above_0(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value
