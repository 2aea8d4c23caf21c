# python -m pytest tests/profiling/test_pipeline.py
"""Stages whose stamps are written by hand: what each takes, what it waits, and what is advised."""

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from dllama_py.cost_model import Link
from dllama_py.planning.measured_splits import other_split
from dllama_py.planning.plan import Model, Plan, StagePlan
from dllama_py.profiling.clock import ROOT
from dllama_py.profiling.picture import Token, picture
from dllama_py.profiling.pipeline_advice import MeasuredPipeline, OtherSplit, advise_pipeline
from dllama_py.profiling.pipeline_report import PipelineFacts, PipelineReport, pipeline_report
from dllama_py.profiling.report import Session
from dllama_py.profiling.stage_costs import HopCost, StageCost, StagePlace
from dllama_py.profiling.timeline import RankTimeline, Span
from dllama_py.profiling.trace import trace
from dllama_py.stamps import Arrival, Role, Work
from dllama_py.transport.hosts import Host
from tests.profiling.sessions import NORM, PRODUCT, US, run

ENCODE, DECODE = Work("encode_rows", Role.LEAVING), Work("decode_rows", Role.ARRIVING)
HEAD = Work("copy_rows", Role.SMALL)
LINK = Link(0.00002, 1e8)
PLACES = [StagePlace(range(1), range(2), 4), StagePlace(range(1, 2), range(2, 4), 4)]


def arrival(source: int, step: int, *times: int) -> Arrival:
    """Sent, asked for, arrived; microseconds."""
    return Arrival(source, step, 4232 if source == 0 else 216, *(US * each for each in times))


def report() -> PipelineReport:
    """A step that warms up, a prompt and two tokens of 1000 us: 300 on rank 0, 50 of hops, 500 + 100 on rank 1."""
    first, second = [], []
    sent, answered = [], []
    for step in range(4):
        t = 1000 * step
        first += [run([(t, t + 200), (t + 200, t + 280)]), run([(t + 280, t + 290)], program=1)]
        second += [
            run([(t + 331, t + 335)]),
            run([(t + 335, t + 800), (t + 800, t + 835), (t + 835, t + 935)], program=1),
        ]
        sent.append(arrival(0, step + 1, t + 300, max(t - 50, 0), t + 330))
        answered.append(arrival(1, step + 1, t + 940, t + 310, t + 960))
    spans = [Span("prefill", 1, 1), Span("decode", 1, 2), Span("decode", 1, 3)]
    ranks = [
        RankTimeline(Host.named("pc"), 1, [(PRODUCT, NORM), (ENCODE,)], first, answered),
        RankTimeline(Host.named("pi"), 1, [(DECODE,), (PRODUCT, NORM, HEAD)], second, sent),
    ]
    session = Session(ranks, spans, [range(1), range(1, 2)], [ROOT, ROOT])
    return pipeline_report(session, PipelineFacts(PLACES, [[LINK, LINK]] * 2, "f32", lambda measured: None))


def test_a_token_is_computing_on_each_stage_and_hops() -> None:
    found = report().as_json()
    assert found["token_ms"] == pytest.approx(1.0)
    a, b = found["per_token"]
    assert [round(1000 * a[key]) for key in ("compute_ms", "wait_ms", "transfer_ms", "outside_ms")] == [
        290,
        630,
        20,
        60,
    ]
    assert [round(1000 * b[key]) for key in ("compute_ms", "wait_ms", "transfer_ms", "outside_ms")] == [
        604,
        350,
        30,
        16,
    ]
    times = [[round(1000 * stage[key]) for key in ("layers_ms", "head_ms", "beside_ms")] for stage in found["stages"]]
    assert times == [[280, 0, 60], [500, 100, 10]]  # the root has 40 between an answer and the next token
    hops = [
        [hop["from"], hop["to"], hop["bytes"], *(round(1000 * hop[key]) for key in ("ms", "arrival_ms"))]
        for hop in found["hops"]
    ]
    assert hops == [[0, 1, 4232, 30, 330], [1, 0, 216, 20, 960]]
    assert sum(sum(row) for row in times) + 50 == 1000


def test_the_trace_and_the_picture_have_the_hops() -> None:
    found = report()
    times, session = found.times, found.times.session
    events = json.loads(json.dumps(trace(session.ranks, session.spans, times.steps)))["traceEvents"]
    tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert tracks[1, 2] == "hops"
    hops = [e for e in events if e.get("cat") == "hop" and e["pid"] == 1]
    assert [(e["name"], e["ts"], e["dur"]) for e in hops[2:4]] == [("wait", 950, 350), ("transfer", 1300, 30)]
    token = Token(session.spans[1], *times.steps[1:3])
    words = [
        text.text for text in ElementTree.fromstring(picture(session.ranks, token, found.bars([]))).iter() if text.text
    ]
    assert "layers 2,2" in words and "best machine alone" in words


def stage(first: int, stop: int, layer_ms: float, host: str) -> StageCost:
    rank = int(host[-1])
    place = StagePlace(range(rank, rank + 1), range(first, stop), 99)
    layers_s = layer_ms * (stop - first) / 1000
    return StageCost(place, Host.named(host), layers_s, 0.0, 0.0, 0.0, 20 * layers_s)


def hop(sender: int, receiver: int, ms: float, link: Link = LINK) -> HopCost:
    return HopCost(sender, receiver, 4232, ms / 1000, ms / 1000, 0.0, link)


UNLIKE = MeasuredPipeline(
    20,
    "f32",
    0.0402,
    (
        stage(0, 10, 1.0, "pc0"),
        stage(10, 20, 3.0, "pi1"),
    ),
    (hop(0, 1, 0.1), hop(1, 0, 0.1)),
)


def plan_of(measured: MeasuredPipeline) -> Plan:
    stages = tuple(
        StagePlan(i, tuple(each.place.ranks), (each.host,), each.place.layers, 0, 0, 0, None, 0.0, 0.0)
        for i, each in enumerate(measured.stages)
    )
    return Plan(Model("m", measured.n_layers, 0, ""), 512, 64, stages, 1.0, 0.0, 1.0, 1, 1.0)


def test_layers_belong_where_they_are_fast() -> None:
    other = other_split(plan_of(UNLIKE), UNLIKE)
    assert other is not None and other.counts == (20, 0)
    advice = advise_pipeline(UNLIKE, other)
    assert advice.sentence == (
        "Stage 1 (rank 1 on pi1, layers 10 to 19) is the slowest: it has a token for 30.0 ms of 40.2 ms; computing is "
        "the limit: the 2 hops take 0.20 ms of 40.2 ms a token; --split 20,0 would give about 50.0 tok/s (+101%) and "
        "long prompts about 1.50 times as fast; 24.9 tok/s in 2 stages against about 50.0 on the best machine alone "
        "(-50%), long prompts about 0.7 times as fast: not worth it below +20%."
    )
    assert not advice.worth_it


def test_where_one_stage_has_all_layers_there_is_nothing_to_compare() -> None:
    alone = replace(UNLIKE, token_s=0.02, stages=(stage(0, 20, 1.0, "pc0"),), hops=())
    advice = advise_pipeline(alone, None)
    assert advice.sentence == "One stage, on pc0, has all 20 layers: 50.0 tok/s; nothing is exchanged."
    assert (advice.limit, advice.worth_it) == ("computing", False)


def test_room_decides_how_far_the_fast_machine_can_help() -> None:
    fast, slow = UNLIKE.stages
    tight = replace(
        UNLIKE,
        stages=(
            replace(fast, place=replace(fast.place, most_layers=14)),
            replace(slow, place=replace(slow.place, most_layers=12)),
        ),
    )
    other = other_split(plan_of(tight), tight)
    assert other is not None and other.counts == (14, 6)
    advice = advise_pipeline(tight, other)
    assert advice.worth_it and not advice.has_room
    assert advice.sentence.endswith("no machine has room for all layers: worth it.")


def test_like_machines_are_good_for_prompts() -> None:
    like = replace(UNLIKE, token_s=0.0202, stages=(stage(0, 10, 1.0, "pc0"), stage(10, 20, 1.0, "pc1")))
    advice = advise_pipeline(like, None)
    assert (advice.worth_it, advice.prompt_gain) == (True, pytest.approx(1.0))
    assert advice.sentence.endswith(
        "long prompts about 2.0 times as fast: worth it for prompts and for several answers at once, not for one."
    )


@pytest.mark.parametrize(
    ("ms", "link", "limit", "words"),
    [
        (8.0, Link(0.008, 1e9), "latency", "he link's latency (8000 us between rank 0 and rank 1) is the limit"),
        (8.0, Link(0.0001, 6e5), "rate", "--activations int8 makes the rows four times smaller"),
        (8.0, LINK, "waiting", "messages come late to busy processors: the 2 hops take 16.0 ms"),
    ],
)
def test_what_limits_the_hops(ms: float, link: Link, limit: str, words: str) -> None:
    advice = advise_pipeline(replace(UNLIKE, token_s=0.056, hops=(hop(0, 1, ms, link), hop(1, 0, ms, link))), None)
    assert advice.limit == limit and words in advice.sentence


def test_a_split_that_changes_little_is_not_offered() -> None:
    assert advise_pipeline(UNLIKE, OtherSplit((11, 9), 0.0395, UNLIKE.slowest_chunk_s)).split is None
