"""Speculation in a pipeline on hosts that are far apart: python -m tests.lan.measure_speculation MODEL --split 15,15

One rank of one thread on each host, packets between them late by --delay-ms. Other options go to speculation_speed.py,
which prints the rows of docs/benchmarks.md. Without --delay-ms the hosts have links of 1 Gbit/s.
"""

import argparse
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from tests.lan.far import far_apart
from tests.lan.hosts import hindrance, lan


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--split", required=True)
    parser.add_argument("--delay-ms", type=float)
    options, others = parser.parse_known_args()
    if (reason := hindrance()) is not None:
        print(f"not measured: {reason}", file=sys.stderr)
        return 0
    program = [sys.executable, "-m", "tests.lan.speculation_speed", str(options.model.resolve())]
    with ExitStack() as stack:
        hosts = stack.enter_context(lan(len(options.split.split(","))))
        if options.delay_ms is not None:
            stack.enter_context(far_apart(hosts, options.delay_ms / 1000))
        command = hosts.mpirun(*program, "--split", options.split, *others)
        return subprocess.run(command, env=hosts.environment(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
