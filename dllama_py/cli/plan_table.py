"""A plan of a pipeline for people: a table of its stages, what to expect, and afterwards how true that was."""

from dllama_py.cli.tables import table
from dllama_py.planning.plan import PROMPT_TOKENS, Plan, StagePlan
from dllama_py.planning.speeds import DECODE_POSITIONS
from dllama_py.sizes import size

HEADS = ("stage", "ranks", "layers", "weights", "KV cache", "together", "free", "ms a token", "ms a chunk")


def plan_page(plan: Plan) -> str:
    """The stages, then what is foretold."""
    hops_ms, n_used = 1000 * plan.hops_s, sum(count > 0 for count in plan.counts)
    between = f", {hops_ms:.2f} of them between the stages" if n_used > 1 else ""
    together = (
        f"; {plan.n_sequences} sequences together {plan.batch_tok_s:.1f} tokens/s" if plan.n_sequences > 1 else ""
    )
    assumed = "" if plan.is_measured else " (of assumed nodes)"
    return "\n".join(
        [
            table(HEADS, [_row(stage) for stage in plan.stages], left=3),
            *plan.notes,
            f"foretold{assumed}: decode {plan.decode_tok_s:.1f} tokens/s, {1000 * plan.token_s:.1f} ms a token after "
            f"{DECODE_POSITIONS}{between}{together}",
            f"prefill {plan.prefill_tok_s:.0f} tokens/s, a prompt of {PROMPT_TOKENS} in chunks of {plan.chunk_rows}",
        ]
    )


def comparison(plan: Plan, decode_tok_s: float | None, prefill_tok_s: float | None) -> str:
    """One line after a run: what was measured against what was foretold."""
    found = [
        f"{name} {measured:.1f} tokens/s, {foretold:.1f} foretold ({100 * (measured / foretold - 1):+.0f} %)"
        for name, measured, foretold in (
            ("decode", decode_tok_s, plan.decode_tok_s),
            ("prefill", prefill_tok_s, plan.prefill_tok_s),
        )
        if measured is not None
    ]
    return f"plan: {'; '.join(found)}"


def _row(stage: StagePlan) -> tuple[object, ...]:
    ranks = ", ".join(f"{rank} on {host}" for rank, host in zip(stage.ranks, stage.hosts, strict=True))
    free = "unknown" if stage.free_bytes is None else size(stage.free_bytes)
    if not stage.layers:
        return (stage.number, ranks, "left out", "", "", "", free, "", "")
    layers = f"{stage.layers.start} to {stage.layers[-1]} ({len(stage.layers)})"
    sizes = map(size, (stage.weights_bytes, stage.cache_bytes, stage.needs_bytes))
    return (stage.number, ranks, layers, *sizes, free, f"{1000 * stage.token_s:.1f}", f"{1000 * stage.chunk_s:.1f}")
