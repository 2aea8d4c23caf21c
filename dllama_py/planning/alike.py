"""Ranks whose measured speeds differ no more than measurements do: they count as equal, so they get equal stages."""

from collections.abc import Sequence
from dataclasses import replace

from dllama_py.planning.sizes import RankSizes
from dllama_py.planning.speeds import BESIDE, PROBE_ROWS, KindSpeed, RankSpeed, layer_s
from dllama_py.planning.wishes import Node

ALIKE = 1.1


def evened(nodes: Sequence[Node], sizes: RankSizes) -> tuple[Node, ...]:
    """The same with the mean speed of all that are alike, by the time that a row and a chunk would take each of them
    in the layers of these sizes."""
    times = {rank: _times(node.speed, sizes) for rank, node in enumerate(nodes)}
    groups: list[list[int]] = []
    for rank in sorted(times, key=lambda rank: times[rank]):
        group = next((group for group in groups if _are_alike(times[group[0]], times[rank])), None)
        if group is None:
            groups.append([rank])
        else:
            group.append(rank)
    speeds = {rank: _mean([nodes[other].speed for other in group]) for group in groups for rank in group}
    return tuple(replace(node, speed=speeds[rank]) for rank, node in enumerate(nodes))


def _times(speed: RankSpeed, sizes: RankSizes) -> tuple[float, float]:
    """Seconds of all layers: for a row, for a chunk."""
    one, many = (sum(layer_s(sizes, i, speed, rows) for i in range(len(sizes.layers))) for rows in (1, PROBE_ROWS))
    return one, many


def _are_alike(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return all(max(x, y) <= ALIKE * min(x, y) for x, y in zip(a, b, strict=True))


def _mean(speeds: Sequence[RankSpeed]) -> RankSpeed:
    n = len(speeds)
    kinds = {
        kind: KindSpeed(
            sum(speed.kinds[kind].bytes_per_s for speed in speeds) / n,
            sum(speed.kinds[kind].macs_per_s for speed in speeds) / n,
            _mean_or_none([speed.kinds[kind].few_macs_per_s for speed in speeds]),
        )
        for kind in speeds[0].kinds
    }
    beside = (sum(getattr(speed, name) for speed in speeds) / n for name in BESIDE)
    return RankSpeed(kinds, *beside)


def _mean_or_none(rates: Sequence[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) / len(known) if known else None
