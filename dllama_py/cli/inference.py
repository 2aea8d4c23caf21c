"""Mode `inference`: one prompt, answered once, with the time and traffic of every step."""

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from dllama_py.boot import Engine, Orders, open_engine
from dllama_py.cli import options
from dllama_py.completion import Event, Finish, FinishReason, Piece, Request, complete
from dllama_py.engine.generate import PromptChunk
from dllama_py.engine.runner import StepCost
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.errors import UsageError
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.prompting import BUILT_IN_PROMPT, Text, check_vocabulary, need_text, open_text
from dllama_py.transport.failure import abort_on_exception
from dllama_py.transport.world import open_world

DEFAULT_STEPS = 256

EPILOG = """examples:
  mpirun -np 4 python -m dllama_py
  mpirun -np 2 python -m dllama_py inference --model model.gguf --prompt "Once upon a time" --steps 64"""


def add_options(parser: options.Parser) -> None:
    parser.epilog, parser.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    prompt = parser.add_mutually_exclusive_group()
    prompt.add_argument("--prompt", help=f"raw text, special tokens recognised (default: asks {BUILT_IN_PROMPT!r})")
    prompt.add_argument("--ids", help="token ids with commas between them, taken as they are")
    parser.add_argument("--steps", type=int, default=DEFAULT_STEPS, help=f"tokens at most (default: {DEFAULT_STEPS})")
    options.add_model_options(parser)
    options.add_engine_options(parser)
    options.add_sampling_options(parser, temperature=0.0, top_p=1.0)
    options.add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.steps < 1:
        raise UsageError(f"--steps {arguments.steps}: expected the number of tokens to generate, at least 1")
    settings, sampling = options.engine_settings(arguments), options.sampler_settings(arguments)
    ids = options.parse_ids(arguments.ids) if arguments.ids is not None else None
    prepared: list[_Prepared] = []

    def check(checkpoint: Checkpoint, orders: Orders) -> None:
        prepared.append(_prepare(arguments, ids, checkpoint, orders))

    comm = open_world()
    with abort_on_exception(comm), open_engine(settings, comm, _say, check) as engine:
        if engine is not None:
            _answer(engine, prepared[0], sampling, arguments)
    return 0


@dataclass(frozen=True, slots=True)
class _Prepared:
    prompt: Sequence[int]
    text: Text | None


def _prepare(
    arguments: argparse.Namespace, ids: list[int] | None, checkpoint: Checkpoint, orders: Orders
) -> _Prepared:
    """The prompt's ids, before anything is loaded."""
    text = open_text(checkpoint, arguments.tokenizer)
    if text is not None:
        check_vocabulary(text, checkpoint)
    if ids is None:
        known = need_text(text, "a text prompt")
        ids = known.built_in_ids() if arguments.prompt is None else known.tokenizer.encode(arguments.prompt)
    _check_prompt(ids, orders)
    return _Prepared(ids, text)


def _check_prompt(ids: Sequence[int], orders: Orders) -> None:
    unknown = [token for token in ids if not 0 <= token < orders.config.vocab_size]
    if unknown:
        raise UsageError(f"token {unknown[0]} does not exist; the model knows 0 to {orders.config.vocab_size - 1}")
    if not ids:
        raise UsageError("the prompt is empty; give at least one token")
    if len(ids) > orders.context:
        raise UsageError(
            f"the prompt has {len(ids)} tokens, the context {orders.context}; shorten it or raise --max-seq-len "
            f"(this model allows {orders.config.context_length})"
        )


def _answer(
    engine: Engine, prepared: _Prepared, sampling: SamplerSettings, arguments: argparse.Namespace
) -> None:
    text = prepared.text
    _announce(engine, sampling)
    request = Request(
        prepared.prompt,
        sampling,
        arguments.steps,
        text.tokenizer.eos_ids if text else frozenset(),
        text.tokenizer.vocab_size if text else engine.orders.config.vocab_size,
    )
    piece = text.tokenizer.piece if text else _no_text
    out = sys.stderr if arguments.json else sys.stdout
    record = Record()
    sequence = CachedSequence(engine.runner, slot=0)
    drops = text.tokenizer.drops_first_space if text else False
    for event in complete(sequence, request, piece, drop_first_space=drops):
        record.add(event)
        line = step_line(event)
        if line:
            print(line, file=out, flush=True)
    if arguments.json:
        print(json.dumps(result(engine, prepared.prompt, record)), flush=True)
    else:
        print(f"\n{record.text}\n\n{summary(record)}", flush=True)


def _announce(engine: Engine, sampling: SamplerSettings) -> None:
    hosts = {facts.host: facts.n_threads for facts in engine.ranks}
    threads = ", ".join(f"{host} {n}" for host, n in hosts.items())
    _say(f"threads of each node: {threads} ({engine.threads.reason}); ready after {engine.load_s:.1f} s")
    if sampling.temperature > 0:
        _say(f"seed {sampling.seed}")


@dataclass(slots=True)
class Record:
    """What has happened so far in one answer."""

    ids: list[int] = field(default_factory=list)
    text: str = ""
    finish: FinishReason | None = None
    prompt_costs: list[StepCost] = field(default_factory=list)
    token_costs: list[StepCost] = field(default_factory=list)  # one less than ids: the first comes with the prompt

    def add(self, event: Event) -> None:
        match event:
            case PromptChunk(cost=cost):
                self.prompt_costs.append(cost)
            case Piece(token=token, text=text):
                if self.ids:
                    self.token_costs.append(token.cost)
                self.ids.append(token.id)
                self.text += text
            case Finish(reason=reason, text=text):
                self.finish = reason
                self.text += text

    @property
    def prefill_s(self) -> float:
        return sum(cost.seconds for cost in self.prompt_costs)

    @property
    def decode_s(self) -> float:
        return sum(cost.seconds for cost in self.token_costs)

    @property
    def n_prefilled(self) -> int:
        return sum(cost.n_rows for cost in self.prompt_costs)


def step_line(event: Event) -> str:
    """One line a step, as distributed-llama prints it; '' for the end."""
    match event:
        case PromptChunk(cost=cost):
            return f"🔷️ Eval{_times_and_traffic(cost)} | ({cost.n_rows} tokens)"
        case Piece(token=token, text=text):
            return f"🔶 Pred{_times_and_traffic(token.cost)} | {_visible(text) or '~'}"
    return ""


def _times_and_traffic(cost: StepCost) -> str:
    compute_ms, sync_ms = (cost.seconds - cost.sync_seconds) * 1000, cost.sync_seconds * 1000
    return (
        f"{compute_ms:5.0f} ms Sync{sync_ms:5.0f} ms | "
        f"Sent{cost.sent_bytes // 1024:6d} kB Recv{cost.received_bytes // 1024:6d} kB"
    )


def _visible(text: str) -> str:
    """Line ends and other control characters spelled out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def summary(record: Record) -> str:
    """Totals of both phases, as distributed-llama prints them."""
    largest = max(cost.n_rows for cost in record.prompt_costs)
    return "\n".join(
        [
            "Evaluation",
            f"   nBatches: {largest}",
            f"    nTokens: {record.n_prefilled}",
            f"   tokens/s: {_rate(record.n_prefilled, record.prefill_s)}",
            "Prediction",
            f"    nTokens: {len(record.ids)}",
            f"   tokens/s: {_rate(len(record.token_costs), record.decode_s)}",
        ]
    )


def _rate(n_tokens: int, seconds: float) -> str:
    return f"{n_tokens / seconds:3.2f} ({1000 * seconds / n_tokens:3.2f} ms/tok)" if n_tokens else "-"


def result(engine: Engine, prompt: Sequence[int], record: Record) -> dict[str, object]:
    """The JSON object of one answer; keys as promised in the documentation."""
    costs, n = record.token_costs, max(len(record.token_costs), 1)
    memory = engine.runner.memory()
    return {
        "prompt_ids": list(prompt),
        "ids": record.ids,
        "text": record.text,
        "finish_reason": record.finish,
        "ids_sha256": hashlib.sha256(",".join(map(str, record.ids)).encode()).hexdigest(),
        "topology": "tensor",
        "nodes": len(engine.ranks),
        "threads": engine.threads.n_threads,
        "ttft_s": record.prefill_s,
        "prefill_tok_s": record.n_prefilled / record.prefill_s,
        "decode_tok_s": len(costs) / record.decode_s if costs else None,
        "sync_ms_per_token": 1000 * sum(cost.sync_seconds for cost in costs) / n,
        "network_share": sum(cost.sync_seconds for cost in costs) / record.decode_s if costs else 0.0,
        "sent_bytes_per_token": sum(cost.sent_bytes for cost in costs) / n,
        "received_bytes_per_token": sum(cost.received_bytes for cost in costs) / n,
        "private_bytes": [private for private, _ in memory],
        "peak_rss_bytes": [peak for _, peak in memory],
        "load_s": engine.load_s,
    }


def _no_text(token: int) -> bytes:
    return b""


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
