"""`bench --minutes`: whether the speed lasts, the first minute against the last, with clock and temperature."""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dllama_py.boot import Engine
from dllama_py.cli.measuring import generated, some_prompt, warmed_up
from dllama_py.cli.running import say
from dllama_py.cli.tables import table
from dllama_py.profiling.sensors import SensorLog
from dllama_py.transport.comm import Comm

MINUTE_S = 60.0
SAY_EVERY_S = 60.0
N_WORDS = 4  # of two windows, beginning and end of each


@dataclass(frozen=True, slots=True)
class Endurance:
    """`windows_s`: of time.time(), the first and the last minute, or halves of less than two; `rates`: tok/s there."""

    windows_s: tuple[tuple[float, float], tuple[float, float]]
    rates: tuple[float, float]


def endure(engine: Engine, arguments: argparse.Namespace) -> Endurance:
    """Generates again and again until the time is over."""
    prompt = some_prompt(engine, arguments.prompt_tokens)
    sequence = warmed_up(engine, prompt, arguments.steps)
    to_wall_s = time.time() - time.perf_counter()
    started_s = said_s = time.perf_counter()
    end_s = started_s + MINUTE_S * arguments.minutes
    steps: list[tuple[float, float]] = []  # end of each decoded token and seconds that it took
    while not steps or time.perf_counter() < end_s:
        times = generated(sequence, prompt, arguments.steps).times_s
        steps += [(after, after - before) for before, after in zip(times[:-1], times[1:], strict=True)]
        if time.perf_counter() - said_s > SAY_EVERY_S:
            said_s = time.perf_counter()
            say(f"{(said_s - started_s) / 60:.0f} of {arguments.minutes:g} minutes: {1 / steps[-1][1]:.1f} tok/s")
    ended_s = max(steps[-1][0], started_s)
    window_s = min(MINUTE_S, (ended_s - started_s) / 2)
    windows = (started_s, started_s + window_s), (ended_s - window_s, ended_s)
    first, last = ((start + to_wall_s, end + to_wall_s) for start, end in windows)
    return Endurance((first, last), (rate_in(steps, *windows[0]), rate_in(steps, *windows[1])))


def rate_in(steps: list[tuple[float, float]], start_s: float, end_s: float) -> float:
    """Tokens a second of decoding, of the tokens that came in that time; prompts between them do not count."""
    took = [seconds for at_s, seconds in steps if start_s <= at_s <= end_s]
    return len(took) / sum(took) if took else 0.0


def gather_sensors(comm: Comm, log: SensorLog, endurance: Endurance | None) -> list[list[float | None]]:
    """All ranks together. -> at the root for each rank clock and temperature in the first and the last window."""
    words = np.zeros(N_WORDS)
    if endurance is not None:
        words[:] = [*endurance.windows_s[0], *endurance.windows_s[1]]
    comm.broadcast_idle(words)
    found = [*log.between(words[0], words[1]), *log.between(words[2], words[3])]
    own = np.array([np.nan if value is None else value for value in found])
    every = np.zeros((comm.size, N_WORDS))
    comm.gather(own, list(every) if comm.rank == 0 else None)
    return [[None if np.isnan(value) else float(value) for value in row] for row in every]


def tell(endurance: Endurance, sensors: list[list[float | None]], hosts: Sequence[str], as_json: bool) -> None:
    """First against last."""
    first, last = endurance.rates
    change = last / first - 1 if first else 0.0
    if as_json:
        keys = ("first_mhz", "first_celsius", "last_mhz", "last_celsius")
        nodes = [{"host": host, **dict(zip(keys, row, strict=True))} for host, row in zip(hosts, sensors, strict=True)]
        rates = {"first_tok_s": first, "last_tok_s": last, "change": change}
        print(json.dumps({**rates, "window_s": _length(endurance.windows_s[0]), "nodes": nodes}), flush=True)
        return
    rows = [
        (
            f"rank {rank} on {host}",
            _pair(row[0], row[2], "MHz", "no cpufreq"),
            _pair(row[1], row[3], "C", "no thermal zone"),
        )
        for rank, (host, row) in enumerate(zip(hosts, sensors, strict=True))
    ]
    print(table(("node", "clock, first to last", "temperature, first to last"), rows))
    print(
        f"decode {first:.2f} tok/s in the first {_length(endurance.windows_s[0]):.0f} s, {last:.2f} in the last "
        f"({change:+.1%})",
        flush=True,
    )


def _length(window_s: tuple[float, float]) -> float:
    return window_s[1] - window_s[0]


def _pair(first: float | None, last: float | None, unit: str, nothing: str) -> str:
    return nothing if first is None or last is None else f"{first:.0f} to {last:.0f} {unit}"
