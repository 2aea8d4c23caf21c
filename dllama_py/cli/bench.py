"""Mode `bench`: how fast prefill and decode are, and how much of the memory's speed decoding uses."""

import argparse
import json
import time
from dataclasses import dataclass, replace
from functools import partial

from dllama_py.blocks import FloatType
from dllama_py.boot import Engine
from dllama_py.cli import options
from dllama_py.cli.running import running_engine
from dllama_py.engine.generate import PromptChunk, Token, generate
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.step import StepCost
from dllama_py.errors import UsageError
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.formats.shapes import shape_named
from dllama_py.formats.synthetic import SyntheticCheckpoint
from dllama_py.formats.tensors import tensor_specs
from dllama_py.orders import Orders

EPILOG = """examples:
  python -m dllama_py bench --shape qwen3_0.6b --weights q40
  mpirun -np 2 python -m dllama_py bench --model model.m --prompt-tokens 168 --steps 64 --json"""

WARM_TOKENS = 4


def add_options(parser: options.Parser) -> None:
    parser.epilog, parser.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    parser.add_argument("--shape", metavar="NAME", help="random weights in the shape of a known model, no file needed")
    parser.add_argument("--layers", type=options.positive, metavar="N", help="with --shape: only so many layers")
    parser.add_argument("--prompt-tokens", type=options.positive, default=168, metavar="P", help="default: 168")
    parser.add_argument("--steps", type=options.positive, default=64, metavar="N", help="tokens (default: 64)")
    options.add_model_options(parser)
    options.add_engine_options(parser)
    options.add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.shape and arguments.model:
        raise UsageError("--shape and --model exclude each other; give one of them")
    if arguments.layers and not arguments.shape:
        raise UsageError("--layers cuts a --shape short; a --model keeps its layers")
    if arguments.steps < 2:
        raise UsageError("--steps 1: the first token comes with the prompt; expected at least 2 to time decoding")
    n_positions = arguments.prompt_tokens + arguments.steps

    def check(checkpoint: Checkpoint, orders: Orders) -> None:
        if n_positions > orders.context:
            raise UsageError(
                f"{n_positions} tokens do not fit the context of {orders.context}; lower --steps or raise --max-seq-len"
            )

    settings = options.engine_settings(arguments)
    if arguments.shape:
        settings = replace(settings, weights=None)  # random weights are made in their type
    with running_engine(arguments, check, settings, partial(_open, arguments)) as engine:
        if engine is not None:
            _report(_measure(engine, arguments.prompt_tokens, arguments.steps), arguments.json)
    return 0


def _open(arguments: argparse.Namespace) -> Checkpoint:
    if not arguments.shape:
        return options.open_model(arguments)
    kind = FloatType.named(arguments.weights or "q40")
    return SyntheticCheckpoint(shape_named(arguments.shape, arguments.layers), kind)


def _measure(engine: Engine, n_prompt: int, n_steps: int) -> dict[str, float | int | list[int]]:
    """Prefill, decode, and between them the memory's own speed."""
    runner = engine.runner
    sequence = CachedSequence(runner, slot=0)
    prompt = [(7 * i + 13) % engine.orders.config.vocab_size for i in range(n_prompt)]
    _run(sequence, [prompt[0]], WARM_TOKENS)
    before = runner.read_bytes_per_s()
    phases = _run(sequence, prompt, n_steps)
    read = max(before, runner.read_bytes_per_s())
    bytes_per_token = sum(facts.bytes_per_token for facts in engine.ranks)
    decode_tok_s = phases.n_decoded / phases.decode_s
    prefill_tok_s = n_prompt / phases.prefill_s
    spent_s = phases.decode_s - sum(cost.kernel_seconds + cost.sync_seconds for cost in phases.decode_costs)
    return {
        "nodes": len(engine.ranks),
        "threads": engine.threads.n_threads,
        "decode_tok_s": decode_tok_s,
        "prefill_tok_s": prefill_tok_s,
        "weight_bytes_per_token": bytes_per_token,
        "read_gb_s": read / 1e9,
        "roofline": bytes_per_token * decode_tok_s / read,
        "gemm_gmac_s": _macs_per_prompt_token(engine) * prefill_tok_s / 1e9,
        "sync_ms_per_token": 1000 * sum(cost.sync_seconds for cost in phases.decode_costs) / phases.n_decoded,
        "python_ms_per_token": 1000 * spent_s / phases.n_decoded,
        "load_s": engine.load_s,
        "compile_s": engine.ranks[0].compile_s,
        "private_bytes": [private for private, _ in runner.memory()],
    }


@dataclass(slots=True)
class _Phases:
    prefill_s: float
    decode_s: float
    n_decoded: int
    decode_costs: list[StepCost]


def _run(sequence: CachedSequence, prompt: list[int], n_steps: int) -> _Phases:
    """One generation, end tokens ignored."""
    started = time.perf_counter()
    times: list[float] = []
    costs: list[StepCost] = []
    n_vocab = 1 << 31
    for event in generate(sequence, prompt, SamplerSettings(), n_steps, n_vocab):
        match event:
            case Token(cost=cost, at_s=at_s):
                times.append(at_s)
                costs.append(cost)
            case PromptChunk():
                pass
    return _Phases(times[0] - started, times[-1] - times[0], len(times) - 1, costs[1:])


def _macs_per_prompt_token(engine: Engine) -> int:
    """Multiplications of matrices by one prompt row, over all ranks: active experts, without the head."""
    config = engine.orders.config
    total = 0
    for spec in tensor_specs(config):
        if spec.layer is not None and len(spec.shape) == 2:
            share = config.n_active_experts / config.n_experts if spec.expert is not None else 1
            total += int(spec.n_elements * share)
    return total


def _report(figures: dict[str, float | int | list[int]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(figures), flush=True)
        return
    for name, value in figures.items():
        print(f"{name:<24}{value:.3f}" if isinstance(value, float) else f"{name:<24}{value}")
