"""`--split`: what a user may say about how many layers each stage gets, and layer ranges that cover a model."""

import math
import re
from collections.abc import Sequence
from fractions import Fraction

from dllama_py.errors import UsageError

AUTO = "auto"
_FORMS = "expected auto, layers of each stage as 12,8,8, or ratios as 6:4"
_COUNT = re.compile(r"\d{1,9}", re.ASCII)
_NUMBER = re.compile(r"\d+(\.\d+)?", re.ASCII)


def read_split(text: str, n_layers: int, n_stages: int) -> tuple[int, ...] | None:
    """Layers of each stage; None if they are to be chosen (`auto`). UsageError if they cannot be had.

    Counts are taken as they are, 0 leaves a stage out; ratios are rounded to whole layers, at least one each.
    """
    if text == AUTO:
        check_stages(n_layers, n_stages)
        return None
    if ":" in text:
        return _by_ratios(text, n_layers, n_stages)
    parts = text.split(",")
    if not all(_COUNT.fullmatch(part) for part in parts):
        raise UsageError(f"--split {text}: {_FORMS}")
    counts = tuple(map(int, parts))
    _check_length(text, len(counts), n_stages)
    if sum(counts) != n_layers:
        raise UsageError(f"--split {text}: {_unmatched(sum(counts), n_layers)}")
    return counts


def check_stages(n_layers: int, n_stages: int) -> None:
    """UsageError where not every stage can have a layer."""
    if n_stages > n_layers:
        raise UsageError(
            f"{n_stages} stages are wanted of a model of {n_layers} layers; "
            f"expected at least one layer each: use at most {n_layers} (-np, --stages)"
        )


def proportional(ratios: Sequence[Fraction], n_layers: int) -> tuple[int, ...]:
    """Largest remainders: at least one layer each, the others as near to the ratios as whole layers can be.

    Of equal remainders the earlier stage gets the layer.
    """
    spare, total = n_layers - len(ratios), sum(ratios)
    wanted = [max(ratio * n_layers / total - 1, Fraction(0)) for ratio in ratios]  # beyond the first
    shares = [want * spare / max(sum(wanted), 1) for want in wanted]
    counts = [math.floor(share) for share in shares]
    by_remainder = sorted(range(len(ratios)), key=lambda stage: counts[stage] - shares[stage])
    for stage in by_remainder[: spare - sum(counts)]:
        counts[stage] += 1
    return tuple(1 + count for count in counts)


def check_ranges(ranges: Sequence[range], n_layers: int, where: str) -> None:
    """UsageError unless these follow each other from layer 0 to the last; an empty one is a stage left out."""
    at = 0
    for stage, layers in enumerate(ranges):
        if not layers:
            continue
        if layers.start > at:
            raise UsageError(f"{where}: {named(range(at, layers.start))} in no stage; expected every layer once")
        if layers.start < at:
            twice = range(layers.start, min(at, layers.stop))
            raise UsageError(
                f"{where}: {named(twice)} in stage {stage} and in one before it; expected every layer once"
            )
        at = layers.stop
    if at < n_layers:
        raise UsageError(f"{where}: {named(range(at, n_layers))} in no stage; expected every layer once")
    if at > n_layers:
        raise UsageError(f"{where}: {named(range(n_layers, at))} not in the model, which has {n_layers} layers")


def named(layers: range) -> str:
    """'layer 3 is', 'layers 3 to 7 are'."""
    return f"layer {layers.start} is" if len(layers) == 1 else f"layers {layers.start} to {layers[-1]} are"


def _by_ratios(text: str, n_layers: int, n_stages: int) -> tuple[int, ...]:
    parts = text.split(":")
    if not all(_NUMBER.fullmatch(part) and Fraction(part) for part in parts):
        raise UsageError(f"--split {text}: {_FORMS}, numbers above 0")
    _check_length(text, len(parts), n_stages)
    check_stages(n_layers, n_stages)
    return proportional([Fraction(part) for part in parts], n_layers)


def _check_length(text: str, n_given: int, n_stages: int) -> None:
    if n_given != n_stages:
        raise UsageError(
            f"--split {text}: {n_given} stages are given, there are {n_stages}; expected one number for each"
        )


def _unmatched(n_given: int, n_layers: int) -> str:
    if n_given < n_layers:
        return f"{n_given} layers of {n_layers}; {named(range(n_given, n_layers))} in no stage, add them to one"
    return f"{n_given} layers; the model has {n_layers}, {named(range(n_layers, n_given))} not there: take them away"
