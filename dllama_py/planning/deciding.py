"""From wishes and measured ranks to a plan: the borders, the size of chunks, what is to be expected."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from dllama_py.config import ModelConfig
from dllama_py.planning.borders import choose
from dllama_py.planning.left_out import left_out
from dllama_py.planning.paths import StageTimes, ranges
from dllama_py.planning.pipe import Pipe, one_after_another, round_s
from dllama_py.planning.plan import PROMPT_TOKENS, Model, Plan, StagePlan, digest
from dllama_py.planning.pricing import Case, make_case
from dllama_py.planning.room import refuse_too_large, too_large
from dllama_py.planning.splits import read_split
from dllama_py.planning.wishes import Links, Node, Wishes, free_bytes
from dllama_py.sharding.kinds import Kinds

CHUNKS = (16, 32, 64, 128, 256)  # rows that are tried; a product of fewer does not pay its way


def decide(wishes: Wishes, config: ModelConfig, kinds: Kinds, nodes: Sequence[Node], links: Links) -> Plan:
    """The plan for these ranks, one `Node` each. UsageError where the split or the memory cannot be had."""
    case = make_case(wishes, config, kinds, nodes, links)
    counts = read_split(wishes.split, config.n_layers, case.n_stages)
    if counts is not None:
        refuse_too_large(case, counts)
        return foretell(case, kinds, counts)
    times = case.times()
    plans = [foretell(case, kinds, counts) for counts in _good_splits(times, wishes.n_slots)]
    if not plans:
        raise too_large(case)
    plan = min(plans, key=lambda plan: plan.together_s)
    return replace(plan, notes=left_out(case, times, plan, partial(foretell, case, kinds)))


def _good_splits(times: StageTimes, n_sequences: int) -> set[tuple[int, ...]]:
    """Of several sequences each may have a step of its own, or all may share one as if they were one sequence."""
    found = (choose(times, n) for n in {1, n_sequences})
    return {counts for counts in found if counts is not None}


def foretell(case: Case, kinds: Kinds, counts: tuple[int, ...]) -> Plan:
    """What is to be expected of so many layers in each stage."""
    used = _used(counts)
    hops_s = sum(case.hop_s(a, b, 1) for (a, _), (b, _) in pairwise(used)) + case.answer_s(used[-1][0])
    tried = [rows for rows in CHUNKS if rows < case.wishes.chunk_rows] + [case.wishes.chunk_rows]
    prompts_s = {rows: _prompt_s(case, counts, rows) for rows in tried}
    chunk_rows = min(prompts_s, key=lambda rows: (prompts_s[rows], -rows))
    stages = _stages(case, counts, chunk_rows)
    return Plan(
        Model(case.wishes.model, case.config.n_layers, _weights_bytes(case), digest(case.config, kinds)),
        case.wishes.context,
        chunk_rows,
        stages,
        sum(stage.token_s for stage in stages) + hops_s + case.root_s,
        hops_s,
        prompts_s[chunk_rows],
        case.wishes.n_slots,
        _together_s(case, counts),
    )


def _together_s(case: Case, counts: tuple[int, ...]) -> float:
    """A token of all sequences, which share as many steps as there are stages; each waits for its answer."""
    used = ranges(counts)
    last, n_steps = used[-1][0], min(case.wishes.n_slots, len(used))
    n_rows = -(-case.wishes.n_slots // n_steps)
    pipe = _pipe(case, counts, n_rows, case.head_s(last, n_rows))
    return round_s(pipe, n_steps, case.answer_s(last) + case.root_s) / case.wishes.n_slots


def _prompt_s(case: Case, counts: tuple[int, ...], n_rows: int) -> float:
    """All chunks after one another, the last one may be a part, and the head once."""
    used = ranges(counts)
    last, n_chunks = used[-1][0], PROMPT_TOKENS / n_rows
    ends_s = one_after_another(_pipe(case, counts, n_rows), math.ceil(n_chunks))
    chunks_s = float(np.interp(n_chunks, range(1, len(ends_s) + 1), ends_s))
    return chunks_s + case.head_s(last) + case.answer_s(last) + case.root_s


def _pipe(case: Case, counts: tuple[int, ...], n_rows: int, head_s: float = 0.0) -> Pipe:
    """For steps of so many rows. `head_s`: of what the last stage does besides."""
    used, stages_s = _used(counts), []
    for stage, layers in used:
        stages_s.append(float(case.step_s(stage, n_rows)[layers.start, layers.stop]) if layers else 0.0)
    stages_s[-1] += head_s
    hops_s = [case.hop_s(a, b, n_rows) for (a, _), (b, _) in pairwise(used)]
    return Pipe(tuple(stages_s), tuple(hops_s), case.slowdown([stage for stage, _ in used]))


def _used(counts: tuple[int, ...]) -> list[tuple[int, range]]:
    """Stages that have layers, and which; the root is the first in any case, for it embeds the tokens."""
    used = ranges(counts)
    return used if used[0][0] == 0 else [(0, range(0)), *used]


def _stages(case: Case, counts: tuple[int, ...], chunk_rows: int) -> tuple[StagePlan, ...]:
    layers_of = dict(ranges(counts))
    used = list(layers_of)
    slower = dict(zip(used, case.slowdown(used)(np.arange(len(used))).tolist(), strict=True))
    return tuple(
        _stage(case, stage, layers_of.get(stage, range(0)), chunk_rows, slower.get(stage, 1.0))
        for stage in range(case.n_stages)
    )


def _stage(case: Case, number: int, layers: range, chunk_rows: int, slower: float) -> StagePlan:
    ranks = tuple(case.ranks(number))
    hosts = tuple(case.nodes[rank].facts.host.name for rank in ranks)
    if not layers:
        return StagePlan(number, ranks, hosts, layers, 0, 0, 0, _known(free_bytes(case.nodes, ranks[0])), 0.0, 0.0)
    place = layers.start, layers.stop
    needs, rank = max((int(case.needs_bytes(rank)[place]), rank) for rank in ranks)
    sizes, is_last = case.sizes[rank - ranks[0]], layers.stop == case.config.n_layers
    weights = sum(sizes.layers[layer].weights_bytes for layer in layers)
    return StagePlan(
        number,
        ranks,
        hosts,
        layers,
        weights + is_last * sizes.head.weights_bytes,
        len(layers) * sizes.layer_cache_bytes,
        needs,
        _known(free_bytes(case.nodes, rank)),
        float(case.step_s(number, 1)[place]) + is_last * case.head_s(number),
        float(case.step_s(number, chunk_rows)[place]) * slower,
    )


def _weights_bytes(case: Case) -> int:
    return sum(part.weights_bytes for sizes in case.sizes for part in (*sizes.layers, sizes.head))


def _known(value: float) -> int | None:
    return None if value == float("inf") else int(value)
