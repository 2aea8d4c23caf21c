"""Two hosts of one core against one, as a pipeline: python -m tests.lan.measure_pipeline MODEL --rate 1gbit

Prints a row of docs/benchmarks.md: tokens a second of one sequence, of a prompt and of several sequences, on one host
and on two, and what two are to one. Further options go to pipeline_speed.py. Ends with 1 if the ids differ.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.lan.hosts import hindrance, lan

NAMES = ("decode_tok_s", "prefill_tok_s", "together_tok_s")
HEADS = "| decode 1, 2 hosts | ratio | prefill 1, 2 hosts | ratio | together 1, 2 hosts | to one sequence on 1 host |"

Facts = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--rate", default="1gbit", help="as tc writes it")
    options, others = parser.parse_known_args()
    if (reason := hindrance()) is not None:
        print(f"not measured: {reason}", file=sys.stderr)
        return 0
    program = [sys.executable, "-m", "tests.lan.pipeline_speed", str(options.model.resolve()), *others]
    alone = _facts(program)
    with lan(2, options.rate) as hosts:
        two = _facts(hosts.mpirun(*program, "--pipeline"), env=hosts.environment())
    print(HEADS, _row(alone, two), sep="\n")
    return 0 if alone["ids_sha256"] == two["ids_sha256"] else 1


def _facts(command: list[str], **settings: Any) -> Facts:
    done = subprocess.run(command, capture_output=True, text=True, check=True, **settings)
    facts: Facts = json.loads(done.stdout.splitlines()[-1])
    return facts


def _row(alone: Facts, two: Facts) -> str:
    cells = []
    for name in NAMES:
        base = alone["decode_tok_s" if name == "together_tok_s" else name]
        cells += [f"{alone[name]:.1f}, {two[name]:.1f}", f"{two[name] / base:.2f}"]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
