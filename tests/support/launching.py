"""launch.py started as users start it, in a clone of its own, with a hub on this machine."""

import os
import pty
import random
import subprocess
import sys
from pathlib import Path

from dllama_py.home import home_folder
from tests.support.hub import FakeHub

CLONE = Path(__file__).parents[2]
MODEL, TOKENIZER = random.Random(1).randbytes(40_000), random.Random(2).randbytes(4000)
QWEN = "b4rtaz/Qwen3-14B-Q40-Distributed-Llama"


def environment(clone: Path, fake: FakeHub | None) -> dict[str, str]:
    """Of a user who has set nothing but the hub."""
    home = clone.parent / "home"
    if not home.exists():
        home.mkdir()
        for folder in home_folder().glob("*/"):  # compiled kernels; what was fetched last is in a file
            (home / folder.name).symlink_to(folder)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    places = {"DLLAMA_HOME": str(home), "HF_HOME": str(clone.parent / "hf")}
    return {**kept, **places, "HF_ENDPOINT": fake.url if fake else "http://127.0.0.1:9"}


def launch(
    clone: Path, fake: FakeHub | None, *arguments: str, words: str | None = None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, clone / "launch.py", *arguments],
        env=environment(clone, fake),
        input=words if words is not None else "",
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def refused(clone: Path, fake: FakeHub | None, *arguments: str) -> str:
    """The one line with which it ends."""
    done = launch(clone, fake, *arguments)
    (line,) = done.stderr.splitlines()
    assert done.returncode in (2, 3), line
    return f"{done.returncode} {line}"


def put_in_place(clone: Path, smollm2_gguf: Path) -> None:
    folder = clone / "models" / "smollm2_135m"
    folder.mkdir(parents=True)
    (folder / smollm2_gguf.name).symlink_to(smollm2_gguf)


def on_a_terminal(
    clone: Path, fake: FakeHub, arguments: list[str], answers: dict[str, str], program: Path | None = None
) -> tuple[str, int]:
    """What a user saw who typed each answer when its question stood there; the exit code. `program`: instead of
    launch.py."""
    command = [str(program)] if program else [sys.executable, str(clone / "launch.py")]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(command[0], [*command, *arguments], environment(clone, fake))
    shown, waiting = "", dict(answers)
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # how Linux reports that the other side is gone
            break
        if not piece:
            break
        shown += piece.decode(errors="replace")
        for question in [question for question in waiting if question in shown]:
            os.write(terminal, waiting.pop(question).encode())
    os.close(terminal)
    return shown, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
