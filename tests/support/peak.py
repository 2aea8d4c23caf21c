"""python -m tests.support.peak MODE ARGUMENTS, under mpirun: each rank tells at last the most it had in memory."""

import os
import sys
from pathlib import Path

from dllama_py import cli

MARK = "the most in memory:"


def main() -> int:
    code = cli.main(sys.argv[1:])
    lines = Path("/proc/self/status").read_text().splitlines()
    peak_kb = next(line.split()[1] for line in lines if line.startswith("VmHWM:"))
    sys.stderr.write(f"\n{MARK} {os.environ['PMI_RANK']} {peak_kb}\n")  # in one write: other ranks tell theirs as well
    return code


if __name__ == "__main__":
    sys.exit(main())
