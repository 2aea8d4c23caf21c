"""A plan of a pipeline for people: a table of its stages, what to expect, and afterwards how true that was."""

from dllama_py.cli.tables import table
from dllama_py.planning.plan import PROMPT_TOKENS, Plan, StagePlan
from dllama_py.planning.speeds import DECODE_POSITIONS
from dllama_py.sizes import megabytes

PLACES, MEMORY, TIMES = (
    ("stage", "ranks", "layers"),
    ("stage, MB", "weights", "KV cache", "total", "free"),
    ("ms/token", "ms/chunk"),
)


def plan_page(plan: Plan) -> str:
    """The stages with their memory, then what is foretold."""
    memory = table(MEMORY, [_memory(stage) for stage in plan.stages])
    return f"{_stages(plan)}\n\n{memory}\n\n{_foretold(plan)}"


def stage_page(plan: Plan) -> str:
    """The same without the memory, of which more is said elsewhere."""
    return f"{_stages(plan)}\n{_foretold(plan)}"


def _stages(plan: Plan) -> str:
    return table(PLACES + TIMES, [(*_place(stage), *_times(stage)) for stage in plan.stages], left=3)


def stage_line(plan: Plan) -> str:
    """Which stage has how many layers, and what to expect; then who is left out, and why."""
    used = [stage for stage in plan.stages if stage.layers]
    places = ", ".join(f"{len(stage.layers)} on {' and '.join(dict.fromkeys(stage.hosts))}" for stage in used)
    rates = f"decode {plan.decode_tok_s:.1f} tokens/s, prefill {plan.prefill_tok_s:.0f}"
    return "\n".join([f"layers: {places}; predicted: {rates}", *plan.notes])


def _foretold(plan: Plan) -> str:
    hops_ms, n_used = 1000 * plan.hops_s, sum(count > 0 for count in plan.counts)
    between = f", {hops_ms:.2f} of them between the stages" if n_used > 1 else ""
    together = (
        f"; {plan.n_sequences} sequences together {plan.batch_tok_s:.1f} tokens/s" if plan.n_sequences > 1 else ""
    )
    assumed = "" if plan.is_measured else " (of assumed nodes)"
    return "\n".join(
        [
            *plan.notes,
            f"foretold{assumed}: decode {plan.decode_tok_s:.1f} tokens/s, {1000 * plan.token_s:.1f} ms a token after "
            f"{DECODE_POSITIONS}{between}{together}",
            f"prefill {plan.prefill_tok_s:.0f} tokens/s, a prompt of {PROMPT_TOKENS} in chunks of {plan.chunk_rows}",
        ]
    )


def comparison(plan: Plan, decode_tok_s: float | None, n_prompt: int, prefill_tok_s: float) -> str:
    """One line after a run: what was measured against what was foretold. A prompt shorter than a chunk says nothing."""
    found = []
    if decode_tok_s is not None:
        found.append(_against("decode", decode_tok_s, plan.decode_tok_s))
    if n_prompt >= plan.chunk_rows:
        found.append(_against("prefill", prefill_tok_s, plan.prefill_tok_s_of(n_prompt)))
    return f"plan: {'; '.join(found)}" if found else ""


def _against(name: str, measured: float, foretold: float) -> str:
    return f"{name} {measured:.1f} tokens/s, {foretold:.1f} foretold ({100 * (measured / foretold - 1):+.0f} %)"


def _place(stage: StagePlan) -> tuple[object, ...]:
    ranks = ", ".join(f"{rank} on {host}" for rank, host in zip(stage.ranks, stage.hosts, strict=True))
    layers = f"{stage.layers.start} to {stage.layers[-1]} ({len(stage.layers)})" if stage.layers else "left out"
    return stage.number, ranks, layers


def _memory(stage: StagePlan) -> tuple[object, ...]:
    free = "unknown" if stage.free_bytes is None else megabytes(stage.free_bytes)
    sizes = (stage.weights_bytes, stage.cache_bytes, stage.needs_bytes)
    return (stage.number, *(map(megabytes, sizes) if stage.layers else ("", "", "")), free)


def _times(stage: StagePlan) -> tuple[str, str]:
    return (f"{1000 * stage.token_s:.1f}", f"{1000 * stage.chunk_s:.1f}") if stage.layers else ("", "")
