# python -m pytest tests/cli/test_placing.py
"""Node counts and machines of modes that start jobs."""

import argparse
from pathlib import Path

import pytest

from dllama_py.cli import placing
from dllama_py.cli.bench_series import passed_on
from dllama_py.cli.options import Parser, add_engine_options, add_model_options, engine_settings
from dllama_py.cli.placing import add_placing_options, counts, placements
from dllama_py.cluster.job import Placement
from dllama_py.errors import UsageError
from dllama_py.settings import PipelineSettings


def parsed(*words: str) -> argparse.Namespace:
    parser = Parser(prog="dllama drift")
    parser.add_argument("--nodes", type=counts)
    add_placing_options(parser)
    return parser.parse_args(words)


def test_one_placement_a_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "check_hosts", lambda hostfile, n_ranks: None)
    hosts = tmp_path / "hosts"
    hosts.write_text("here:2\nthere:2\n")
    arguments = parsed("--nodes", "1,2,4", "--hostfile", str(hosts))
    assert placements(arguments, arguments.nodes) == [Placement(n, hosts) for n in (1, 2, 4)]
    assert placements(parsed(), [2]) == [Placement(2)]
    assert placements(parsed(), [1, 3], is_pipeline=True) == [Placement(1), Placement(3)]


@pytest.mark.parametrize("text", ["", "1,", "0", "a,2", "1 2"])
def test_no_counts(text: str) -> None:
    with pytest.raises(UsageError, match="--nodes"):
        parsed("--nodes", text)


def test_counts_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="--nodes 3: a model is shared by 1, 2, 4, 8, ... nodes; any number goes with --top"
    ):
        placements(parsed(), [1, 3])
    (tmp_path / "hosts").write_text("here:1\nthere:1\n")
    with pytest.raises(UsageError, match="--nodes 4: .*hosts offers 2"):
        placements(parsed("--hostfile", str(tmp_path / "hosts")), [1, 4])


def test_a_pipeline_has_all_three_machines_of_a_hostfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[tuple[object, int]] = []
    monkeypatch.setattr(placing, "check_hosts", lambda hostfile, n_ranks: looked_at.append((hostfile, n_ranks)))
    (tmp_path / "hosts").write_text("here:1\nthere:1\nelsewhere:1\n")
    arguments = parsed("--hostfile", str(tmp_path / "hosts"))
    assert [place.n_ranks for place in placements(arguments, [1, 3], is_pipeline=True)] == [1, 3]
    assert looked_at == [(tmp_path / "hosts", 3)]


def test_jobs_are_of_the_topology_that_was_asked_for() -> None:
    parser = Parser(prog="dllama profile")
    add_model_options(parser)
    add_engine_options(parser)
    pipeline = ["--topology", "pipeline", "--stages", "2", "--split", "1,3", "--activations", "int8"]
    usual = passed_on(parser.parse_args(["--model", "m"]))
    assert passed_on(parser.parse_args(["--model", "m", *pipeline])) == usual + pipeline


def test_auto_takes_any_number_of_nodes_and_no_option_of_a_pipeline(tmp_path: Path) -> None:
    parser = Parser(prog="dllama bench")
    add_model_options(parser)
    add_engine_options(parser)
    settings = engine_settings(parser.parse_args(["--topology", "auto"]))
    assert settings.pipeline == PipelineSettings(or_tensor=True)
    for words in (["--stages", "2"], ["--split", "1,3"], ["--plan", "p"], ["--save-plan", "p"]):
        with pytest.raises(UsageError, match=f"{words[0]} is for pipelines, --topology auto may choose none"):
            engine_settings(parser.parse_args(["--topology", "auto", *words]))
