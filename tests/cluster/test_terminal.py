# python -m pytest tests/cluster/test_terminal.py
"""Chat at a terminal: in one process, and through the front that keeps the terminal outside the job."""

import io
import os
import pty
import re
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from dllama_py.cluster.front import _shown
from dllama_py.cluster.terminal import Console
from dllama_py.progress import unwatched

MPIRUN = [str(Path(sys.executable).with_name("mpirun")), "-np", "2"]
FRANCE = b"What is the capital of France? Answer in one sentence.\r"
LONG = b"What is the capital of France?\r"  # to which this small model greedily never stops talking
UP = b"\x1b[A"
FRONT = "import sys\nfrom dllama_py.cluster.front import converse\nsys.exit(converse(sys.argv[1:]))"


class Typist:
    """A user at a pseudo-terminal."""

    def __init__(self, pid: int, terminal: int) -> None:
        self.pid = pid
        self.terminal = terminal
        self._seen = b""

    def type(self, keys: bytes) -> None:
        time.sleep(0.3)  # a signal in the moment in which the prompt appears waits for the next key
        os.write(self.terminal, keys)

    def see(self, words: bytes) -> bytes:
        """What appears up to these words."""
        while words not in self._seen:
            assert select.select([self.terminal], [], [], 100)[0], self._seen
            self._seen += os.read(self.terminal, 65536)
        seen, _, self._seen = self._seen.partition(words)
        return seen

    def leave(self, keys: bytes) -> int:
        """-> the program's exit code."""
        if keys == b"\x03":  # the first may have been meant for the answer
            self.type(keys)
            self.see(b"Ctrl-C again or Ctrl-D ends\r\n> ")
        self.type(keys)
        return self.code()

    def code(self) -> int:
        """Of the program, which must end now."""
        with suppress(OSError):  # how a pseudo-terminal says that nobody is at its other end
            while select.select([self.terminal], [], [], 60)[0] and os.read(self.terminal, 65536):
                pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@contextmanager
def typing(command: list[str], home: Path) -> Iterator[Typist]:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(command[0], command, {**os.environ, "TERM": "dumb", "DLLAMA_HOME": str(home)})
    try:
        yield Typist(pid, terminal)
    finally:
        os.close(terminal)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With the kernels that are compiled already."""
    from dllama_py.home import home_folder

    home_folder().mkdir(parents=True, exist_ok=True)
    for entry in home_folder().iterdir():
        if entry.is_dir():
            (tmp_path / entry.name).symlink_to(entry)
    return tmp_path


def chat(model: Path, in_front: bool, *more: str) -> list[str]:
    words = [sys.executable, "-m", "dllama_py", "chat", "--model", str(model), "--nthreads=1", *more]
    return [sys.executable, "-c", FRONT, *MPIRUN, *words] if in_front else words


@pytest.mark.parametrize(("in_front", "keys", "code"), [(False, b"\x03", 130), (True, b"/quit\r", 0)])
def test_a_conversation(smollm2_gguf: Path, home: Path, in_front: bool, keys: bytes, code: int) -> None:
    """An answer, one that Ctrl-C stops, the first question again by the arrow key, the end."""
    with typing(chat(smollm2_gguf, in_front, "--temperature=0", "--steps=1000"), home) as user:
        user.see(b"\n> ")
        user.type(FRANCE)
        assert b"The capital of France is Paris.\r\n" in user.see(b"\n> ")
        user.type(b"/reset\r")
        user.see(b"\n> ")
        user.type(LONG)
        user.see("la Cité".encode())
        user.type(b"\x03")
        assert user.see(b"\n> ").endswith(b"stopped]\r")
        user.type(b"/reset\r")
        user.see(b"\n> ")
        user.type(4 * UP + b"\r")
        assert b"The capital of France is Paris.\r\n" in user.see(b"\n> ")
        assert user.leave(keys) == code
    assert FRANCE.decode().strip() in (home / "chat_history").read_text()


@pytest.mark.parametrize(("in_front", "keys", "code"), [(False, b"\x04", 0), (True, b"\x03", 130)])
def test_it_ends_without_a_word(smollm2_gguf: Path, home: Path, in_front: bool, keys: bytes, code: int) -> None:
    with typing(chat(smollm2_gguf, in_front), home) as user:
        user.see(b"\n> ")
        assert user.leave(keys) == code


def test_thoughts_are_folded_with_their_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    console = Console()
    for text, thought in (("<think>hm", True), (" so</think>", True), ("Yes", False)):
        console.show(text, thought)
    console.end_line()
    assert re.fullmatch(r"\[thinking for \d+\.\d s\]\nYes\n", capsys.readouterr().out)


def test_a_thought_that_is_cut_short_ends_its_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    console = Console()
    console.show("<think>hm", True)
    console.say("stopped")
    told = capsys.readouterr()
    assert re.fullmatch(r"\[thinking for \d+\.\d s\]\n", told.out) and told.err == "stopped\n"


def test_what_is_typed_during_an_answer_waits_for_the_prompt(smollm2_gguf: Path, home: Path) -> None:
    with typing(chat(smollm2_gguf, False, "--temperature=0", "--steps=60"), home) as user:
        user.see(b"\n> ")
        user.type(LONG)
        user.see("la Cité".encode())
        os.write(user.terminal, b"/res")
        answer = user.see(b"\n> ")
        assert b"/res" not in answer.rpartition(b"[")[0]
        user.type(b"et\r")
        user.see(b"begins anew")
        assert user.leave(b"/quit\r") == 0


def test_what_the_launcher_says_is_shown_also_if_it_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    lines = io.BytesIO(b'[mpiexec] no JSON\n12\nnull\n{"text": "Hi", "thought": false}\n{"waiting": true}\n')
    assert _shown(lines, Console(), unwatched)
    assert not _shown(lines, Console(), unwatched)
    told = capsys.readouterr()
    assert (told.out, told.err) == ("Hi", "[mpiexec] no JSON\n12\nnull\n")


def test_a_job_that_cannot_start_passes_its_code_on(home: Path) -> None:
    with typing(chat(Path("nowhere"), True), home) as user:
        assert b"error: " in user.see(b"nowhere")
        assert user.code() == 2


def test_the_job_ends_when_its_terminal_is_gone(smollm2_gguf: Path, home: Path) -> None:
    mark = f"--seed={os.getpid()}"  # finds the job's processes
    with typing(chat(smollm2_gguf, True, mark), home) as user:
        user.see(b"\n> ")
        assert len(processes(mark)) >= 6  # front, launcher, two watchers, two ranks
        user.type(LONG)
        user.see(b"\n")
    os.waitpid(user.pid, 0)
    until = time.monotonic() + 60
    while processes(mark) and time.monotonic() < until:
        time.sleep(0.1)
    assert processes(mark) == []


def processes(mark: str) -> list[Path]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (folder / "cmdline").read_bytes():
                found.append(folder)
    return found
