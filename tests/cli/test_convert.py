# python -m pytest tests/cli/test_convert.py
"""Mode convert: the same as `python -m converter`, which tests/conversion looks at closely."""

import subprocess
import sys

import pytest

from converter.__main__ import main as converter
from dllama_py.cli import main
from tests.checkpoints import tiny_folder


def test_both_doors_write_the_same_file(tmp_path, tmp_path_factory, capsys):
    folder = str(tiny_folder(tmp_path_factory, "tiny-llama"))
    for run, start, name in ((main, ["convert"], "a"), (converter, [], "b")):
        assert run([*start, "model", folder, "q40", name, "--output", str(tmp_path)]) == 0
    a, b = tmp_path / "dllama_model_a_q40.m", tmp_path / "dllama_model_b_q40.m"
    assert capsys.readouterr().out.splitlines() == [str(a), str(b)]
    assert a.read_bytes() == b.read_bytes()


def test_the_converter_runs_as_a_module(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "converter", "model", str(tmp_path / "none"), "q40", "a"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("error: ") and "there is no such file or folder" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("arguments", "missing"), [([], "WHAT"), (["model", "folder", "q40"], "NAME")])
def test_wrong_usage_is_one_line_and_exits_with_2(capsys, arguments, missing):
    assert main(["convert", *arguments]) == 2
    error = capsys.readouterr().err
    assert f"the following arguments are required: {missing}" in error and error.count("\n") == 1
