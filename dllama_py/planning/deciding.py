"""From wishes and measured ranks to a plan: the borders, the size of chunks, what is to be expected."""

from collections.abc import Sequence
from dataclasses import replace

from dllama_py.config import ModelConfig
from dllama_py.planning.borders import choose
from dllama_py.planning.left_out import left_out
from dllama_py.planning.paths import ranges
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
    counts = choose(times, wishes.n_slots)
    if counts is None:
        raise too_large(case)
    return foretell(case, kinds, counts, left_out(case, times, counts))


def foretell(case: Case, kinds: Kinds, counts: tuple[int, ...], notes: tuple[str, ...] = ()) -> Plan:
    """What is to be expected of so many layers in each stage."""
    used = ranges(counts)
    case = replace(case, used=tuple(stage for stage, _ in used))
    hops = [(a, b) for (a, _), (b, _) in zip(used, used[1:], strict=False)]
    if used[0][0]:
        hops.insert(0, (0, used[0][0]))  # the root has no layers, and embeds the tokens all the same
    hops_s = sum(case.hop_s(*hop, 1) for hop in hops) + case.answer_s(used[-1][0])
    tried = [rows for rows in CHUNKS if rows < case.wishes.chunk_rows] + [case.wishes.chunk_rows]
    prompts_s = {rows: _prompt_s(case, counts, hops, rows) for rows in tried}
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
        _together_s(case, counts, hops),
        notes,
    )


def _together_s(case: Case, counts: tuple[int, ...], hops: Sequence[tuple[int, int]]) -> float:
    """A token of all sequences, which share as many steps as there are stages: a step is done each time the slowest
    stage is, or all of them in the time of a whole way."""
    used = ranges(counts)
    last, n_steps = used[-1][0], min(case.wishes.n_slots, len(used))
    n_rows = -(-case.wishes.n_slots // n_steps)
    stages_s = [float(case.step_s(stage, n_rows)[layers.start, layers.stop]) for stage, layers in used]
    stages_s[-1] += case.head_s(last, n_rows)
    way_s = sum(stages_s) + sum(case.hop_s(*hop, n_rows) for hop in hops) + case.answer_s(last) + case.root_s
    return max(way_s, n_steps * max(stages_s)) / case.wishes.n_slots


def _prompt_s(case: Case, counts: tuple[int, ...], hops: Sequence[tuple[int, int]], n_rows: int) -> float:
    """All chunks after one another through a pipe that the first one has to fill, and the head once."""
    used = ranges(counts)
    chunks_s = [float(case.step_s(stage, n_rows)[layers.start, layers.stop]) for stage, layers in used]
    hops_s = [case.hop_s(*hop, n_rows) for hop in hops]
    n_chunks = PROMPT_TOKENS / n_rows
    last = used[-1][0]
    ends_s = case.head_s(last) + case.answer_s(last) + case.root_s
    return sum(chunks_s) + sum(hops_s) + max(n_chunks - 1, 0) * max(chunks_s + hops_s) + ends_s


def _stages(case: Case, counts: tuple[int, ...], chunk_rows: int) -> tuple[StagePlan, ...]:
    layers_of = dict(ranges(counts))
    return tuple(_stage(case, stage, layers_of.get(stage, range(0)), chunk_rows) for stage in range(case.n_stages))


def _stage(case: Case, number: int, layers: range, chunk_rows: int) -> StagePlan:
    ranks = tuple(case.ranks(number))
    hosts = tuple(case.nodes[rank].facts.host for rank in ranks)
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
        float(case.step_s(number, chunk_rows)[place]),
    )


def _weights_bytes(case: Case) -> int:
    return sum(part.weights_bytes for sizes in case.sizes for part in (*sizes.layers, sizes.head))


def _known(value: float) -> int | None:
    return None if value == float("inf") else int(value)
