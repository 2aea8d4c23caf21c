"""What happened in one answer, and how it is told: a line a step, a summary, a JSON object."""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dllama_py.boot import Engine
from dllama_py.cli.stages_record import HopWatch, stages_figures, topology
from dllama_py.completion import Event, Finish, FinishReason, Piece
from dllama_py.engine.step import StepCost
from dllama_py.engine.token_loop import PromptChunk

NO_COST = StepCost(0.0, 0.0, 0.0, 0, 0, 0)


@dataclass(slots=True)
class Record:
    """Collects the events of one answer; begin it just before the first."""

    started_s: float = field(default_factory=time.perf_counter)
    ids: list[int] = field(default_factory=list)
    text: str = ""
    finish: FinishReason | None = None
    prompt_costs: list[StepCost] = field(default_factory=list)
    token_costs: list[StepCost] = field(default_factory=list)  # one less than ids: the first comes with the prompt
    token_times_s: list[float] = field(default_factory=list)

    def add(self, event: Event) -> None:
        match event:
            case PromptChunk(cost=cost):
                self.prompt_costs.append(cost)
            case Piece(token=token, text=text):
                if self.ids:
                    self.token_costs.append(token.cost)
                self.ids.append(token.id)
                self.token_times_s.append(token.at_s)
                self.text += text
            case Finish(reason=reason, text=text):
                self.finish = reason
                self.text += text

    @property
    def n_prefilled(self) -> int:
        return sum(cost.n_rows for cost in self.prompt_costs)

    @property
    def prefill_s(self) -> float:
        return sum(cost.seconds for cost in self.prompt_costs)

    @property
    def first_token_s(self) -> float:
        return self.token_times_s[0] - self.started_s

    @property
    def decode_s(self) -> float:
        """From the first token to the last."""
        return self.token_times_s[-1] - self.token_times_s[0]

    @property
    def n_decoded(self) -> int:
        """Tokens that took a step of their own."""
        return len(self.token_costs)

    @property
    def decode_tok_s(self) -> float | None:
        return self.n_decoded / self.decode_s if self.n_decoded else None

    @property
    def network_share(self) -> float:
        """The part of decoding that was spent in messages."""
        return sum(cost.sync_seconds for cost in self.token_costs) / self.decode_s if self.n_decoded else 0.0

    @property
    def sent_bytes_per_token(self) -> float:
        return self.per_token(lambda cost: cost.sent_bytes)

    def per_token(self, of: Callable[[StepCost], float]) -> float:
        """Mean of something of the steps over the decoded tokens."""
        return sum(map(of, self.token_costs)) / max(self.n_decoded, 1)


def step_line(event: Event, spells_ids: bool = False, is_first: bool = False) -> str:
    """One line a step, as distributed-llama prints it; '' for the end. `spells_ids`: there is no text to show.
    `is_first`: the token comes with the prompt's step, whose time and bytes are told already.
    """
    match event:
        case PromptChunk(cost=cost):
            return f"🔷️ Eval{_times_and_traffic(cost)} | ({cost.n_rows} tokens)"
        case Piece(token=token, text=text):
            cost = NO_COST if is_first else token.cost
            return f"🔶 Pred{_times_and_traffic(cost)} | {_visible(text) or (token.id if spells_ids else '~')}"
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
    return "\n".join(
        [
            "Evaluation",
            f"   nBatches: {len(record.prompt_costs)}",
            f"    nTokens: {record.n_prefilled}",
            f"   tokens/s: {_rate(record.n_prefilled, record.prefill_s)}",
            "Prediction",
            f"    nTokens: {len(record.ids)}",
            f"   tokens/s: {_rate(record.n_decoded, record.decode_s)}",
        ]
    )


def _rate(n_tokens: int, seconds: float) -> str:
    return f"{n_tokens / seconds:3.2f} ({1000 * seconds / n_tokens:3.2f} ms/tok)" if n_tokens else "-"


def result(engine: Engine, prompt: Sequence[int], record: Record, watch: HopWatch) -> dict[str, object]:
    """The JSON object of one answer; keys as promised in the documentation."""
    memory = engine.runner.memory()
    return {
        "prompt_ids": list(prompt),
        "ids": record.ids,
        "text": record.text,
        "finish_reason": record.finish,
        "ids_sha256": hashlib.sha256(",".join(map(str, record.ids)).encode()).hexdigest(),
        "topology": topology(engine),
        "nodes": len(engine.ranks),
        "threads": engine.threads.n_threads,
        "ttft_s": record.first_token_s,
        "prefill_tok_s": record.n_prefilled / record.prefill_s,
        "decode_tok_s": record.decode_tok_s,
        "sync_ms_per_token": 1000 * record.per_token(lambda cost: cost.sync_seconds),
        "network_share": record.network_share,
        "sent_bytes_per_token": record.sent_bytes_per_token,
        "received_bytes_per_token": record.per_token(lambda cost: cost.received_bytes),
        "private_bytes": [private for private, _ in memory],
        "peak_rss_bytes": [peak for _, peak in memory],
        "load_s": engine.load_s,
    } | stages_figures(engine, record, watch)
