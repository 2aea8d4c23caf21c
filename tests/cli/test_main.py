# python -m pytest tests/cli/test_main.py
"""What the program does about streams, machines and command lines, whatever the mode: one line, never a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dllama_py.cli import main
from dllama_py.home import home_folder
from tests.checkpoints import tiny_gguf, tiny_model_file

PROGRAM = [sys.executable, "-m", "dllama_py"]


@pytest.fixture
def inspect(tmp_path: Path) -> list[str]:
    return [*PROGRAM, "inspect", str(tiny_model_file(tmp_path / "tiny.m"))]


@pytest.mark.parametrize("mode", ["", "chit-chat"])
def test_a_mode_that_does_not_exist(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([mode]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: no mode '{mode}'; the modes are inference, ") and told.count("\n") == 1


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("api", "no HTTP server in this version; programs talk to `chat --json-lines`"),
        ("serve", "no HTTP server in this version; programs talk to `chat --json-lines`"),
        ("batch", "no batch mode in this version; inference and chat answer one at a time"),
    ],
)
def test_a_mode_of_other_versions(mode: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([mode, "--model", "a.m"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: {words}") and told.count("\n") == 1


def test_a_reader_that_has_enough_is_no_error(inspect: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as output:
        done = subprocess.run(inspect, stdout=output, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_full_disk_under_the_output_is_told_in_one_line(inspect: list[str]) -> None:
    with open("/dev/full", "wb") as output:
        done = subprocess.run(inspect, stdout=output, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "error: input or output: No space left on device\n")


def test_a_terminal_without_emoji_gets_them_spelled_out(tmp_path: Path) -> None:
    model = tiny_model_file(tmp_path / "tiny.m")
    command = [*PROGRAM, "inference", "--model", model, "--ids", "1,2", "--steps", "1"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("\\U0001f537")


def test_a_host_without_mpi_is_named_and_ends_the_job() -> None:
    script = 'if [ "$PMI_RANK" = 1 ]; then export MPI4PY_LIBMPI=/nowhere/libmpi.so; fi; exec "$@"'
    job = [str(Path(sys.executable).with_name("mpirun")), "-np", "2", "sh", "-c", script, "sh", *PROGRAM]
    done = subprocess.run([*job, "inference"], capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: rank 1 on ")
    assert line.endswith("else pip install --force-reinstall mpich (docs/troubleshooting.md#no-mpi)")


@pytest.mark.parametrize("words", [["--help"], ["inference", "--help"]])
def test_help_comes_from_the_root_alone(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank, expected in (("0", 1), ("1", 0)):
        monkeypatch.setenv("PMI_RANK", rank)
        try:
            assert main(words) == 0
        except SystemExit as end:  # argparse has shown the help of a mode
            assert end.code == 0
        assert capsys.readouterr().out.count("usage: python -m dllama_py") == expected


def test_a_tilde_is_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell leaves it as it is behind `=`, and in what a file of settings says."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DLLAMA_HOME", "~/kept")
    assert home_folder() == tmp_path / "kept"
    tiny_gguf(tmp_path / "tiny.gguf")
    assert main(["inspect", "~/tiny.gguf"]) == 0
    assert main(["tokenize", "--model=~/tiny.gguf", "--prompt=Hi"]) == 0
    assert main(["synth", "--shape=smollm2_135m", "--layers=1", "~/out.m"]) == 0
    assert (tmp_path / "out.m").is_file()


def test_a_user_whom_nobody_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "~nobody-of-that-name/tiny.gguf"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: ~nobody-of-that-name/tiny.gguf: the system knows no such user; give the whole path"
    ]


@pytest.mark.parametrize("program", [PROGRAM, [sys.executable, "launch.py"], [sys.executable, "-m", "converter"]])
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_no_exit_code(program: list[str], closed: str) -> None:
    """They say less, and nothing in another place."""
    for arguments, code in ((["--help"], 0), (["--no-such-option"], 2)):
        command = ["sh", "-c", f'exec "$@" {closed}', "sh", *program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout != "") == (code, code == 0 and ">&-" not in closed.replace("2>&-", ""))
        assert done.stderr.count("\n") == (code == 2 and "2>&-" not in closed)


def test_an_answer_needs_no_standard_error(tmp_path: Path) -> None:
    """Alone and as two ranks."""
    arguments = [
        "inference",
        "--model",
        tiny_gguf(tmp_path / "a.gguf"),
        "--ids=1,2",
        "--steps=2",
        "--nthreads=1",
        "--json",
    ]
    mpirun = [Path(sys.executable).with_name("mpirun"), "-np", "2"]
    outputs = []
    for launcher in ([], mpirun):
        command = [*launcher, "sh", "-c", 'exec "$@" 2>&-', "sh", *PROGRAM, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        outputs.append(json.loads(done.stdout)["ids"])
    assert outputs[0] == outputs[1] != []
    refused = [*mpirun, "sh", "-c", 'exec "$@" 2>&-', "sh", *PROGRAM, "inference", "--model=/none"]
    done = subprocess.run(refused, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")
