"""Why a stage got no layers."""

from dllama_py.planning.borders import fastest_with
from dllama_py.planning.paths import StageTimes
from dllama_py.planning.pricing import Case

NOTICEABLE = 1.005


def left_out(case: Case, times: StageTimes, counts: tuple[int, ...]) -> tuple[str, ...]:
    """A sentence for every stage without layers."""
    token_s = times.token_s(counts)
    used = {stage for stage, count in enumerate(counts) if count}
    return tuple(
        f"{_called(case, stage)} left out: {_reason(times, used | {stage}, token_s)}"
        for stage, count in enumerate(counts)
        if not count
    )


def _reason(times: StageTimes, stages: set[int], token_s: float) -> str:
    with_s = fastest_with(times, stages)
    if with_s == float("inf"):
        return "no layer has room there beside what the others have"
    if with_s > token_s * NOTICEABLE:
        return f"a token would take {1000 * with_s:.1f} ms with it instead of {1000 * token_s:.1f}"
    return "a prompt would be no faster with it"


def _called(case: Case, stage: int) -> str:
    ranks = case.ranks(stage)
    hosts = ", ".join(dict.fromkeys(case.nodes[rank].facts.host for rank in ranks))
    return f"rank {ranks.start} on {hosts}" if len(ranks) == 1 else f"ranks {ranks.start} to {ranks[-1]} on {hosts}"
