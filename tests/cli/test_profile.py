# python -m pytest tests/cli/test_profile.py
"""Mode profile through its command line, alone and in real jobs of two ranks."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from dllama_py.cli import main
from dllama_py.cluster.job import Placement
from dllama_py.cluster.series import Job, answer_of
from dllama_py.formats.checkpoint import open_checkpoint
from tests.checkpoints import tiny_model_file

KEYS = {
    "busy_cores",
    "nodes",
    "threads",
    "hosts",
    "exchange",
    "decode_tok_s",
    "token_ms",
    "per_token",
    "steps",
    "collectives",
    "kernels",
    "memory_gb_s",
    "links",
    "clocks",
    "forecasts",
    "advice",
}
STEPS = ["--steps", "5", "--prompt-tokens", "7", "--nthreads", "1"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model_file(tmp_path_factory.mktemp("model") / "tiny.m"))


def kernel(found: dict[str, Any], phase: str, name: str, rank: int = 0) -> dict[str, Any]:
    (row,) = (row for row in found["kernels"] if (row["phase"], row["kernel"], row["rank"]) == (phase, name, rank))
    return dict(row)


def test_one_node(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, svg = tmp_path / "trace.json", tmp_path / "token.svg"
    assert main(["profile", "--json", "--model", model, *STEPS, "--trace", str(trace), "--svg", str(svg)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == KEYS
    assert (found["nodes"], found["collectives"], found["links"], found["forecasts"]) == (1, [], [], [])
    assert [(step["phase"], step["rows"]) for step in found["steps"]] == [("prefill", 7), *[("decode", 1)] * 4]
    assert found["decode_tok_s"] == pytest.approx(1000 / found["token_ms"])
    for step in found["steps"]:
        (node,) = step["nodes"]
        assert node["wait_ms"] == node["transfer_ms"] == 0
        assert node["compute_ms"] + node["outside_ms"] == pytest.approx(step["ms"])
    assert kernel(found, "decode", "matmul_q40")["gb_s"] > 0
    assert kernel(found, "prefill", "matmul_q40")["gmac_s"] > 0
    assert found["advice"]["sentence"].startswith("One node computes")
    events = json.loads(trace.read_text())["traceEvents"]
    assert sum(event.get("cat") in ("prefill", "decode") for event in events) == 5
    assert ElementTree.parse(svg).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_two_nodes(model: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    words = ["profile", "--json", "--model", model, *STEPS, "--buffer-float-type", "q80", "--trace", str(trace)]
    found = answer_of(Job(Placement(2), words))
    assert found.keys() == KEYS
    assert (found["nodes"], found["exchange"], len(found["hosts"]), len(found["links"])) == (2, "q80", 2, 1)
    config = open_checkpoint(Path(model)).config
    assert [each["number"] for each in found["collectives"]] == list(range(2 * config.n_layers + 1))
    assert {tuple(each["sent_bytes"]) for each in found["collectives"][:-1]} == {(config.width // 32 * 34,) * 2}
    assert found["collectives"][-1]["sent_bytes"] == [0, 8 * (1 + 2 * 4)]  # the best candidate and four sums of shares
    for each in found["collectives"]:
        assert sum(each["times_last"]) == 3  # the last of four steps has no end
        assert sorted(each["usual_order"]) == [0, 1]
        assert min(each["wait_ms"]) >= 0 and min(each["transfer_ms"]) >= 0
    for rank, node in enumerate(found["per_token"]):
        assert min(node.values()) >= 0, (rank, node)
    settings = {(each["n_nodes"], each["exchange"]) for each in found["forecasts"]}
    assert settings == {(1, "q80"), (2, "f32"), (2, "bf16"), (2, "q80")}
    pids = {event["pid"] for event in json.loads(trace.read_text())["traceEvents"]}
    assert pids == {0, 1, 2}


def test_stages_of_a_pipeline(model: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    words = ["profile", "--json", "--model", model, *STEPS, "--topology", "pipeline", "--trace", str(trace)]
    found = answer_of(Job(Placement(2), [*words, "--split", "1,1"]))
    assert found.keys() == KEYS - {"links", "forecasts"} | {"stages", "hops"}
    assert (found["exchange"], found["collectives"]) == ("stages, f32", [])
    assert [(stage["ranks"], stage["layers"]) for stage in found["stages"]] == [([0], [0, 0]), ([1], [1, 1])]
    assert found["stages"][0]["head_ms"] == 0 < found["stages"][1]["head_ms"]
    assert [(hop["from"], hop["to"]) for hop in found["hops"]] == [(0, 1), (1, 0)]
    assert all(0 <= hop["ms"] <= hop["longest_ms"] for hop in found["hops"])
    assert all(0 <= stage["beside_ms"] and 0 < stage["layers_ms"] for stage in found["stages"])
    assert found["advice"]["sentence"].startswith("Stage ")
    events = json.loads(trace.read_text())["traceEvents"]
    assert {event["pid"] for event in events if event.get("cat") == "hop"} == {0, 1}


def test_tables(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "--model", model, *STEPS]) == 0
    out = capsys.readouterr().out
    assert [title for title in ("Per token (", "Kernels in prefill", "Kernels in decode") if title not in out] == []
    assert "Exchanges" not in out  # there are none
    assert "matmul_q40" in out and "barriers" in out
    assert max(map(len, out.splitlines())) <= 110


def test_node_counts_one_after_the_other(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    svg = tmp_path / "nodes.svg"
    assert main(["profile", "--model", model, *STEPS, "--nodes", "2,1", "--svg", str(svg)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["nodes", "1", "2"]
    assert "tok/s on 2 nodes against " in lines[3] and "about" not in lines[3].split("against ")[1][:6]
    words = [text.text for text in ElementTree.parse(svg).getroot().iter("{http://www.w3.org/2000/svg}text")]
    assert "1 node" in words and "2 nodes, f32" in words and "2 nodes, q80" in words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--steps", "2"], ["--steps 2", "at least 3"]),
        (["--prompt-tokens", "600"], ["632 tokens", "--max-seq-len"]),
        (["--beside", "missing.json"], ["missing.json", "No such file", "profile --json"]),
        (["--beside", __file__], ["test_profile.py", "no profile"]),
        (["--svg", "no/folder/x.svg"], ["--svg no/folder/x.svg", "No such file", "can be written"]),
        (["--nodes", "1", "--trace", "/"], ["--trace /", "directory"]),
        (["--nodes", "5"], ["--nodes 5"]),
        (["--topology", "pipeline", "--plan-only"], ["--plan-only", "plan"]),
    ],
)
def test_what_cannot_be_profiled(
    model: str, arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", "--model", model, *arguments]) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert [word for word in words if word not in told] == []
