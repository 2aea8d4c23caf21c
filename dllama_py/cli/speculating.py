"""Speculation as a user sees it: its options, and what it gained."""

import argparse

from dllama_py.cli.options import Parser
from dllama_py.cli.record import Record
from dllama_py.engine.lookup import Lookup
from dllama_py.engine.speculation import NO_SPECULATION, Speculating, Speculation

OFF, LOOKUP = "off", "lookup"


def add_speculation_options(parser: Parser) -> None:
    """Whether several tokens are computed at once. No choice changes a token."""
    group = parser.add_argument_group("speculation")
    group.add_argument(
        "--speculate",
        choices=(OFF, LOOKUP),
        default=OFF,
        help="guess tokens and check several in one step, for the same answer sooner, as long as that pays; lookup: "
        "what followed the same tokens before (default: off)",
    )


def speculation_of(arguments: argparse.Namespace) -> Speculating:
    """As the options say."""
    return Speculation(Lookup()) if arguments.speculate == LOOKUP else NO_SPECULATION


def speculation_figures(arguments: argparse.Namespace, speculation: Speculating, record: Record) -> dict[str, object]:
    """For the JSON object of one answer; None where nothing was counted."""
    return {
        "speculation": arguments.speculate,
        "acceptance": _acceptance(speculation),
        "tokens_per_step": _tokens_per_step(speculation, record),
        "speculation_speed_up": _speed_up(speculation, record),
    }


def speculation_summary(speculation: Speculating, record: Record) -> str:
    """Lines that follow the summary of an answer; none without speculation."""
    counts, per_step = speculation.counts, _tokens_per_step(speculation, record)
    if per_step is None:
        return ""
    speed_up = _speed_up(speculation, record)
    return "\n".join(
        [
            "\nSpeculation",
            f"   accepted: {counts.n_accepted} of {counts.n_drafted}",
            f"tokens/step: {per_step:.2f}",
            f"   speed-up: {'-' if speed_up is None else f'{speed_up:.2f}'}",
        ]
    )


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
    """Against as many steps of one token."""
    plain_s = speculation.plain_s
    return record.n_decoded * plain_s / record.decode_s if plain_s and record.n_decoded else None
