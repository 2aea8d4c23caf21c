# python -m pytest tests/profiling/test_trace.py
"""The trace as Perfetto reads it."""

import json

from dllama_py.profiling.analysis import step_times
from dllama_py.profiling.trace import trace
from tests.profiling.sessions import two_ranks


def test_every_event_has_what_the_format_asks_for() -> None:
    ranks, spans = two_ranks()
    read = json.loads(json.dumps(trace(ranks, spans, step_times(ranks, spans, [range(2)]))))
    named = [event for event in read["traceEvents"] if event["ph"] == "M"]
    timed = [event for event in read["traceEvents"] if event["ph"] == "X"]
    assert len(named) + len(timed) == len(read["traceEvents"])
    assert all(event.keys() == {"name", "cat", "ph", "pid", "tid", "ts", "dur", "args"} for event in timed)
    assert all(event["ts"] >= 0 and event["dur"] >= 0 for event in timed)
    tracks = {(event["pid"], event["tid"]): event["args"]["name"] for event in named if event["name"] == "thread_name"}
    assert tracks == {
        (0, 0): "thread 0",
        (0, 1): "thread 1",
        (0, 2): "all-reduces",
        (1, 0): "thread 0",
        (1, 1): "all-reduces",
    }
    processes = {event["pid"]: event["args"]["name"] for event in named if event["name"] == "process_name"}
    assert processes == {0: "rank 0 on a", 1: "rank 1 on b", 2: "steps"}
    assert {(event["pid"], event["tid"]) for event in timed} == {*tracks, (2, 0)}


def test_times_count_in_microseconds_from_the_first_step() -> None:
    ranks, spans = two_ranks()
    events = trace(ranks, spans, step_times(ranks, spans, [range(2)]))["traceEvents"]
    first = next(event for event in events if event["name"] == "matmul_q40" and event["pid"] == 1)
    assert (first["ts"], first["dur"], first["args"]) == (10, 790, {"bytes": 1_000_000})
    steps = [event for event in events if event.get("cat") == "decode"]
    assert [(step["name"], step["ts"], step["dur"]) for step in steps] == [
        ("decode 0", 0, 2000),
        ("decode 1", 2000, 700),
    ]
    waits = [event for event in events if event["name"] == "wait" and event["pid"] == 0]
    assert [(wait["ts"], wait["dur"], wait["args"]["last"]) for wait in waits] == [(500, 300, 1), (2520, 0, 0)]
    messages = [event for event in events if event["name"] == "transfer" and event["pid"] == 0]
    assert [(message["ts"], message["dur"]) for message in messages] == [(800, 150), (2520, 130)]
