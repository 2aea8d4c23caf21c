# python -m pytest tests/cli/test_plan.py
"""Mode plan: headers alone, equal nodes that are assumed, plans saved and used again, refusals of one line."""

import json
from pathlib import Path

import pytest

from dllama_py.cli import main
from dllama_py.cli.plan_table import comparison
from dllama_py.planning.plan_file import read
from tests.checkpoints import tiny_model_file
from tests.cli.isolated import run_isolated


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main(["plan", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def counts(fields: dict) -> list[int]:
    return [stage["layers"][1] - stage["layers"][0] + 1 if stage["layers"] else 0 for stage in fields["stages"]]


def test_the_page(capsys) -> None:
    assert main(["plan", "--shape", "llama3_1_8b_instruct", "--nodes", "4", "--node-memory", "4GB"]) == 0
    page = capsys.readouterr().out.splitlines()
    assert page[0].split() == "stage ranks layers ms/token ms/chunk".split()
    assert page[6].split() == "stage, MB weights KV cache total free".split()
    assert page[2].split()[:8] == "1 1 on node1 8 to 15 (8)".split()
    assert page[12].startswith("foretold (of assumed nodes): decode ") and page[13].startswith("prefill ")


def test_neither_mpi_nor_numba_nor_more_than_headers(tmp_path: Path) -> None:
    path = tiny_model_file(tmp_path / "a.m")
    done = run_isolated("plan", "--model", str(path), "--nodes", "2", "--split", "1,1", "--json")
    assert done.returncode == 0 and done.stderr == ""
    assert counts(json.loads(done.stdout)) == [1, 1]


def test_stages_of_two_nodes(capsys) -> None:
    found = planned(capsys, "--shape", "qwen3_8b", "--nodes", "4", "--stages", "2")
    assert counts(found) == [18, 18] and [stage["ranks"] for stage in found["stages"]] == [[0, 1], [2, 3]]


def test_as_many_nodes_as_the_hostfile_offers(tmp_path: Path, capsys) -> None:
    hostfile = tmp_path / "hostfile"
    hostfile.write_text("desk:2\nlaptop:1\n")
    words = ("--shape", "qwen3_8b", "--hostfile", str(hostfile), "--node-memory", "32GB")
    plan = planned(capsys, *words)
    assert counts(plan) == [12, 12, 12]
    assert [stage["hosts"] for stage in plan["stages"]] == [["desk"], ["desk"], ["laptop"]]
    free = [stage["free_bytes"] for stage in plan["stages"]]
    assert free == [16_000_000_000, 16_000_000_000, 32_000_000_000]


def test_a_saved_plan_is_used_again(tmp_path: Path, capsys) -> None:
    path = tmp_path / "plan.json"
    first = planned(capsys, "--shape", "qwen3_8b", "--node-memory", "8GB", "--split", "6:4", "--save-plan", str(path))
    assert counts(first) == [22, 14] and not first["is_measured"] and read(path).counts == (22, 14)
    again = planned(capsys, "--shape", "qwen3_8b", "--node-memory", "8GB", "--plan", str(path))
    assert again == first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--split", "20,20"], "--split 20,20: 40 layers; the model has 36, layers 36 to 39 are not there"),
        (["--nodes", "100000000"], "100000000 stages are wanted of a model of 36 layers"),
        (["--nodes", "37"], "37 stages are wanted of a model of 36 layers"),
        (["--nodes", "4", "--stages", "3"], "--stages 3: 4 nodes do not divide into them"),
        (
            ["--node-memory", "2GB"],
            "the model does not fit these ranks with a context of 4096: stage 0 on node0 layers",
        ),
        (["--node-memory", "2GB", "--split", "18,18"], "stage 0: layers 0 to 17 need 2.5 GB of memory on rank 0 on"),
        (["--node-memory", "much"], "'much' is no size; expected as 8GB, 7.5GB or 900MB"),
        (["--link", "0"], "'0' is not a number above 0"),
        (["--model", "a.gguf"], "--shape and --model exclude each other"),
    ],
)
def test_errors_are_one_line_and_exit_with_2(capsys, arguments: list[str], message: str) -> None:
    assert main(["plan", "--shape", "qwen3_8b", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.startswith("error: ") and error.count("\n") == 1


def test_what_was_measured_against_the_plan(tmp_path: Path, capsys) -> None:
    path = tmp_path / "plan.json"
    planned(capsys, "--shape", "qwen3_8b", "--split", "18,18", "--save-plan", str(path))
    plan = read(path)
    line = comparison(plan, 1.1 * plan.decode_tok_s, 512, 0.9 * plan.prefill_tok_s)
    assert "(+10 %); prefill " in line and line.endswith(" foretold (-10 %)")
    assert "prefill" not in comparison(plan, plan.decode_tok_s, 8, 1.0)
    longer_s = 4096 / plan.prefill_tok_s_of(4096) - 512 / plan.prefill_tok_s_of(512)
    assert longer_s == pytest.approx((4096 - 512) / plan.chunk_rows * max(stage.chunk_s for stage in plan.stages))
