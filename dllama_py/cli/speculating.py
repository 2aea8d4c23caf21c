"""Speculation as a user sees it: its options, and what it gained."""

import argparse
from dataclasses import replace
from pathlib import Path

from dllama_py.boot import Engine
from dllama_py.cli import options
from dllama_py.cli.record import Record
from dllama_py.drafting import Speculations, with_speculation
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.speculation import Speculating
from dllama_py.settings import DRAFT, OFF, SPECULATIONS, EngineSettings


def add_speculation_options(parser: options.Parser) -> None:
    """Whether several tokens are computed at once. No choice changes a token."""
    group = parser.add_argument_group("speculation")
    group.add_argument(
        "--speculate",
        choices=SPECULATIONS,
        help="guess tokens and check several in one step, for the same answer sooner, as long as that pays; lookup: "
        "what followed the same tokens before; draft: what a small model says (default: draft with --draft, else off)",
    )
    group.add_argument("--draft", type=Path, metavar="PATH", help="a small model of the same vocabulary that guesses")


def speculating_settings(arguments: argparse.Namespace) -> EngineSettings:
    """Of the engine, with who guesses. UsageError if the two options do not belong together."""
    settings = options.engine_settings(arguments)
    return with_speculation(replace(settings, speculate=arguments.speculate, draft=arguments.draft))


def speculation_of(
    arguments: argparse.Namespace, engine: Engine, sampling: SamplerSettings, n_vocab: int
) -> Speculating:
    """As the options say. `n_vocab`: ids below it may be sampled."""
    return Speculations(arguments.speculate, engine.draft).of(0, sampling, n_vocab)


def speculation_figures(arguments: argparse.Namespace, speculation: Speculating, record: Record) -> dict[str, object]:
    """For the JSON object of one answer; None where nothing was counted."""
    return {
        "speculation": arguments.speculate or (DRAFT if arguments.draft else OFF),
        "acceptance": _acceptance(speculation),
        "tokens_per_step": _tokens_per_step(speculation, record),
        "cancelled_steps": speculation.counts.n_cancelled if speculation.counts.n_steps else None,
        "speculation_speed_up": _speed_up(speculation, record),
    }


def speculation_summary(speculation: Speculating, record: Record) -> str:
    """Lines that follow the summary of an answer; none without speculation."""
    counts, per_step = speculation.counts, _tokens_per_step(speculation, record)
    if per_step is None:
        return ""
    speed_up = _speed_up(speculation, record)
    lines = [
        "\nSpeculation",
        f"   accepted: {counts.n_accepted} of {counts.n_drafted}",
        f"tokens/step: {per_step:.2f}",
    ]
    if counts.n_cancelled:
        lines.append(f"  cancelled: {counts.n_cancelled} steps that were sent ahead")
    return "\n".join([*lines, f"   speed-up: {'-' if speed_up is None else f'{speed_up:.2f}'}"])


def speculation_note(speculation: Speculating, record: Record) -> str:
    """For the line below an answer; nothing without speculation."""
    per_step = _tokens_per_step(speculation, record)
    return "" if per_step is None else f", {per_step:.1f} tokens a step"


def _acceptance(speculation: Speculating) -> float | None:
    counts = speculation.counts
    return counts.n_accepted / counts.n_drafted if counts.n_drafted else None


def _tokens_per_step(speculation: Speculating, record: Record) -> float | None:
    n_steps = speculation.counts.n_steps
    return record.n_decoded / n_steps if n_steps else None


def _speed_up(speculation: Speculating, record: Record) -> float | None:
    """Against as many steps without any guess, as long as such a step took lately."""
    plain_s = speculation.plain_s
    if plain_s is None or not speculation.counts.n_steps:
        return None
    return record.n_decoded * plain_s / record.decode_s
