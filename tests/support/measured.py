"""Runs commands of the program in forks of a process that has imported it, so that ninety of them take no minute.

The memory of each is how far it grew above an empty fork, at most. As a program: reads a JSON list of commands from
standard input, writes a JSON list of what `Measured` holds. Seconds are those of the processor: those on the wall count
what else the machine does.
"""

import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

CLONE = Path(__file__).parents[2]


@dataclass(frozen=True)
class Measured:
    code: int
    out: str
    err: str
    seconds: float
    grown_bytes: int


def measured(commands: Sequence[Sequence[str]]) -> list[Measured]:
    """What became of each command, given as the words after `dllama`."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.measured"],
        input=json.dumps(commands),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=CLONE,
    )
    return [Measured(*facts) for facts in json.loads(done.stdout)]


def _in_a_fork(run: Callable[[], int]) -> tuple[int, str, str, float, int]:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err, open(os.devnull) as nothing:
        child = os.fork()
        if child == 0:
            for number, file in enumerate((nothing, out, err)):
                os.dup2(file.fileno(), number)
            os._exit(_flushed(run))
        _, status, usage = os.wait4(child, 0)
        out.seek(0)
        err.seek(0)
        seconds = usage.ru_utime + usage.ru_stime
        return os.waitstatus_to_exitcode(status), out.read(), err.read(), seconds, usage.ru_maxrss * 1024


def _flushed(run: Callable[[], int]) -> int:
    """Its exit code; what escapes from it is shown as by the interpreter."""
    try:
        code = run()
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _serve() -> None:
    from dllama_py.cli import chat, convert, inference, inspect, main  # noqa: F401 - or each fork would import them

    commands = json.load(sys.stdin)
    *_, empty_bytes = _in_a_fork(lambda: 0)
    done = [_in_a_fork(partial(main, words)) for words in commands]
    json.dump([(*facts, peak_bytes - empty_bytes) for *facts, peak_bytes in done], sys.stdout)


if __name__ == "__main__":
    _serve()
