"""Runs commands from a small process, so that the peak memory of each is its own and not that of the tests.

As a program: reads a JSON list of commands from standard input, two at a time; writes a JSON list of what `Measured`
holds. Seconds are those of the processor: those on the wall count what else the machine does.
"""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    code: int
    out: str
    err: str
    seconds: float
    peak_bytes: int


def measured(commands: list[list[str]]) -> list[Measured]:
    """What became of each command."""
    done = subprocess.run(
        [sys.executable, __file__], input=json.dumps(commands), stdout=subprocess.PIPE, text=True, check=True
    )
    return [Measured(*facts) for facts in json.loads(done.stdout)]


def _run(command: list[str]) -> tuple[int, str, str, float, int]:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        peak_bytes = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return process.returncode, out.read(), err.read(), usage.ru_utime + usage.ru_stime, peak_bytes


if __name__ == "__main__":
    with ThreadPoolExecutor(2) as pool:
        json.dump(list(pool.map(_run, json.load(sys.stdin))), sys.stdout)
