# python -m pytest tests/cli/test_progress.py
"""Progress: nothing of short works, lines where no terminal is, a bar where one is."""

import json
import os
import pty
import subprocess
import sys
import time

import pytest

from dllama_py.cli import progress
from dllama_py.cli.progress import shown_progress
from dllama_py.cli.progress_lines import told_progress
from dllama_py.progress import Work

SLOW = """
import time
from dllama_py.cli import progress
from dllama_py.progress import Work
progress.QUIET_S = 0.2
progress.LOOK_S = 0.05
with progress.shown_progress() as tell:
    for part in range(12):
        tell(Work("loading weights", 12_000_000), part * 1_000_000, "to rank 1 on [b]")
        time.sleep(0.1)
    tell(Work("loading weights", 12_000_000), 12_000_000, "")
"""


IN_FRONT = """
import sys
from dllama_py.cli import progress
from dllama_py.cluster.front import converse
progress.QUIET_S = 0.2
progress.LOOK_S = 0.05
with progress.shown_progress() as tell:
    sys.exit(converse([sys.executable, "-c", sys.argv[1]], None, tell))
"""

JOB = """
import sys, time
from dllama_py.cli import progress_lines
from dllama_py.progress import Work
progress_lines.PAUSE_S = 0
with progress_lines.told_progress() as tell:
    for part in range(12):
        tell(Work("loading weights", 12_000_000), part * 1_000_000, "to rank 1 on [b]")
        time.sleep(0.1)
    tell(Work("loading weights", 12_000_000), 12_000_000, "")
print('{"waiting": true}', flush=True)
sys.stdin.read()
"""


def test_short_works_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_progress() as tell:
        tell(Work("loading weights", 10), 5, "layers.0.q")
        tell(Work("loading weights", 10), 10, "")
    assert capsys.readouterr().err == ""


def test_lines_where_no_terminal_is() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", SLOW], capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert done.stdout == "" and 3 <= len(lines) <= 7
    assert lines[0].startswith("loading weights: ") and lines[0].endswith(" s left: to rank 1 on [b]")
    assert " MB of 12.0 MB, " in lines[0] and "MB/s" in lines[0]
    assert lines[-1].startswith("loading weights: 12.0 MB in 1.") and lines[-1].endswith(" MB/s")


@pytest.mark.parametrize("arguments", [[SLOW], [IN_FRONT, JOB]], ids=["of this process", "of a job behind it"])
def test_a_bar_on_a_terminal(arguments: list[str]) -> None:
    reader, writer = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", *arguments],
        stderr=writer,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    ) as program:
        os.close(writer)
        shown = b""
        while True:
            try:
                shown += os.read(reader, 4096)
            except OSError:  # the other end is closed
                break
    os.close(reader)
    assert program.returncode == 0
    text = shown.decode().partition("/help")[0]  # which is what the front says before its first question
    assert "\x1b[2K" in text and "━" in text and "to rank 1 on [b]" in text
    assert text.rstrip().splitlines()[-1].endswith(" MB/s") and "12.0 MB in 1." in text


def test_a_wait_shows_without_further_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET_S", 0.1)
    monkeypatch.setattr(progress, "LOOK_S", 0.02)
    with shown_progress() as tell:
        tell(Work("compiling kernels for this CPU, once", 19, "kernels"), 7, "matmul")
        time.sleep(0.3)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("compiling kernels for this CPU, once: 37%, 7 of 19 kernels, ")
    assert lines[0].endswith(" s left: matmul")
    assert len(lines) <= 3  # and no word of an end that never came


def test_lines_for_a_program_are_few_but_the_end_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with told_progress() as tell:
        for done in range(1000):
            tell(Work("a", 1000, "kernels"), done, "matmul")
        tell(Work("a", 1000, "kernels"), 1000, "")
        tell(Work("b", 5), 0, "")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == {"work": "a", "total": 1000, "unit": "kernels", "done": 0, "detail": "matmul"}
    assert [(line["work"], line["done"]) for line in lines[-2:]] == [("a", 1000), ("b", 0)]
    assert len(lines) < 100
