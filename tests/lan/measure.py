"""Tokens on several hosts against the model of their cost: python -m tests.lan.measure MODEL --hosts 2 --rate 1gbit

Prints a row of docs/benchmarks.md for each exchange format. Ends with 1 if the time between nodes is more than 1.5
times that of the bytes at the rate of the link plus the measured delays, or if a token takes 20 % more or less than
forecast. All hosts share the cores of this machine: of more hosts than cores some compute after others, for which the
forecast allows.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median_low
from typing import Any

from dllama_py.config import ModelConfig
from dllama_py.cost_model import Compute, Forecast, Link, Network, Step, forecast, step_ways
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.settings import EXCHANGES
from tests.lan.hosts import MPIRUN, Lan, bits_per_s, burst_bytes, hindrance, lan

UNSHAPED = "20gbit"  # while the model is loaded
PROMPT = ",".join(str(7 * i % 1000 + 13) for i in range(64))
SYNC_FACTOR, FORECAST_ERROR = 1.5, 0.2
HEADS = "| hosts | rate | exchange | tok/s | forecast | sync ms | forecast | bytes + delays | kB sent, received |"

Facts = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--rate", default="1gbit", help="as tc writes it")
    parser.add_argument("--exchange", type=lambda text: text.split(","), default=EXCHANGES)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--tries", type=int, default=1, help="the median of so many runs counts")
    options = parser.parse_args()
    if (reason := hindrance()) is not None:
        print(f"not measured: {reason}", file=sys.stderr)
        return 0
    config = open_checkpoint(options.model).config
    answer = ["-m", "dllama_py", "inference", "--model", str(options.model.resolve()), "--nthreads", "1"]
    program = [sys.executable, *answer, "--ids", PROMPT, "--steps", str(options.steps), "--json"]
    compute = _compute(program, options.hosts)
    with lan(options.hosts, options.rate) as hosts:
        network = _network(hosts)
        print(f"one host: {1000 * compute.shared_s:.2f} ms shared, {1000 * compute.whole_s:.2f} ms whole; {network}")
        print(HEADS)
        good = [
            _compare(config, compute, network, options.rate, _tries(hosts, program, exchange, options))
            for exchange in options.exchange
        ]
    return 0 if all(good) else 1


def _compute(program: Sequence[str], n_hosts: int) -> Compute:
    """From one and two ranks of one thread on this machine, which has a core for each; what is shared among more hosts
    than cores takes as long as on the cores, and what each does whole comes several times after another.
    """
    alone, half = (_compute_s(_json(subprocess.run([*job, *program], **_READ))) for job in ([], [MPIRUN, "-np", "2"]))
    turns = max(n_hosts // len(os.sched_getaffinity(0)), 1)
    return Compute(2 * (alone - half) * turns, max(2 * half - alone, 0.0) * turns)


_READ: Facts = {"capture_output": True, "text": True, "check": True}


def _compute_s(facts: Facts) -> float:
    """Of a token. Waits of one rank for the other are part of it: they do not come from the link."""
    return 1.0 / facts["decode_tok_s"]


def _network(hosts: Lan) -> Network:
    command = hosts.mpirun(sys.executable, "-m", "tests.lan.link_speed")
    links = _json(subprocess.run(command, env=hosts.environment(), **_READ))["links"]
    return Network(tuple(Link(**link | {"head_start_bytes": burst_bytes(hosts.rate)}) for link in links))


def _tries(hosts: Lan, program: Sequence[str], exchange: str, options: argparse.Namespace) -> Facts:
    """The run in the middle by tokens per second."""
    runs = [_run(hosts, [*program, "--buffer-float-type", exchange], options.rate) for _ in range(options.tries)]
    middle = median_low([run["decode_tok_s"] for run in runs])
    return next(run for run in runs if run["decode_tok_s"] == middle) | {"exchange": exchange}


def _run(hosts: Lan, program: Sequence[str], rate: str) -> Facts:
    """One answer; the links get their rate when the model is loaded, before the prompt is through."""
    hosts.set_rate(UNSHAPED)
    pipes: Facts = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(hosts.mpirun(*program), env=hosts.environment(), **pipes) as job:
        assert job.stdout and job.stderr
        said = []
        for line in job.stderr:
            said.append(line)
            if "ready after" in line:
                hosts.set_rate(rate)
        last = job.stdout.read().splitlines()[-1:]
    if job.returncode:
        raise RuntimeError("".join(said))
    facts: Facts = json.loads(last[0])
    return facts


def _compare(config: ModelConfig, compute: Compute, network: Network, rate: str, facts: Facts) -> bool:
    """Prints the row; -> whether both bounds are kept."""
    n_nodes, exchange = facts["nodes"], facts["exchange"]
    step = Step(1, _answer_bytes(config, facts))
    expected = forecast(config, step, compute, network, n_nodes, exchange)
    n_bytes = max(facts["sent_bytes_per_token"], facts["received_bytes_per_token"])
    least_s = n_bytes / (bits_per_s(rate) / 8) + expected.latency_s
    print(_row(facts, rate, expected, least_s), flush=True)
    return (
        facts["sync_ms_per_token"] <= SYNC_FACTOR * 1000 * least_s
        and abs(expected.seconds * facts["decode_tok_s"] - 1) <= FORECAST_ERROR
    )


def _answer_bytes(config: ModelConfig, facts: Facts) -> int:
    """What each other node tells the root of a token: what is not sums of layers."""
    (times, sums), *_ = step_ways(config, Step(), facts["nodes"], facts["exchange"])
    rest = facts["received_bytes_per_token"] - times * sum(messages.n_bytes for messages in sums)
    return int(rest / (facts["nodes"] - 1))


def _row(facts: Facts, rate: str, expected: Forecast, least_s: float) -> str:
    kilobytes = [facts[f"{way}_bytes_per_token"] / 1000 for way in ("sent", "received")]
    cells = [
        str(facts["nodes"]),
        rate,
        facts["exchange"],
        f"{facts['decode_tok_s']:.1f}",
        f"{1 / expected.seconds:.1f}",
        f"{facts['sync_ms_per_token']:.1f}",
        f"{1000 * expected.sync_s:.1f}",
        f"{1000 * least_s:.1f}",
        f"{kilobytes[0]:.0f}, {kilobytes[1]:.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def _json(done: "subprocess.CompletedProcess[str]") -> Facts:
    facts: Facts = json.loads(done.stdout.splitlines()[-1])
    return facts


if __name__ == "__main__":
    sys.exit(main())
