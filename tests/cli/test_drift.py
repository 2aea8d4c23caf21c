# python -m pytest tests/cli/test_drift.py
"""Mode drift: real jobs of tiny models, and differences planted where it must find them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dllama_py.blocks import FloatType
from dllama_py.cli import drift_jobs, main
from dllama_py.cli.drift_jobs import read_logits
from dllama_py.cluster import series
from dllama_py.cluster.job import Placement, job_command
from tests.checkpoints import tiny_gguf, tiny_model_file

KEYS = {
    "nodes",
    "threads",
    "exchange",
    "first_differing_token",
    "max_abs_logit_difference",
    "kl_nats",
    "min_top2_margin",
}


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(tiny_model_file(tmp_path / "tiny.m"))


@pytest.fixture
def drift(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, dict[str, Any], str]]:
    """Runs it on a few ids -> exit code, object of the last line, standard error."""

    def run(*arguments: str) -> tuple[int, dict[str, Any], str]:
        code = main(["drift", "--steps", "3", "--threads", "1", "--json", *arguments])
        said = capsys.readouterr()
        return code, json.loads(said.out.splitlines()[-1]) if said.out else {}, said.err

    return run


def test_nodes_chunks_and_exchanges(drift: Callable[..., Any], model: str) -> None:
    settings = ["--nodes", "1,2", "--buffer-float-type", "f32,q80"]
    code, found, said = drift("--model", model, "--ids", "1,2,3,4,5", *settings)
    assert code == 0 and found["identical"] is True
    assert [(s["nodes"], s["exchange"]) for s in found["settings"]] == [(1, "f32"), (2, "f32"), (1, "q80"), (2, "q80")]
    assert all(s.keys() >= KEYS and s["threads"] == 1 for s in found["settings"])
    plain, rounded = found["settings"][1], found["settings"][3]
    assert (plain["first_differing_token"], plain["max_abs_logit_difference"], plain["kl_nats"]) == (None, 0, 0)
    assert rounded["max_abs_logit_difference"] > 0 and rounded["kl_nats"] > 0 and not rounded["same_bits"]
    assert len(found["ids"]) == 3 and plain["min_top2_margin"] > 0
    assert "identical: 4 settings, and within each exchange one answer, bit for bit" in said


def test_a_text_other_weights_and_logits_from_elsewhere(drift: Callable[..., Any], tmp_path: Path) -> None:
    model = tiny_gguf(tmp_path / "a.gguf")
    (tmp_path / "text.txt").write_text("The capital of France is Paris. " * 8)
    ids = ["--model", str(model), "--ids", "1,2,3,4"]
    out = tmp_path / "x.npy"
    assert main(["logits", *ids, "--nthreads", "1", "--out", str(out)]) == 0
    logits = np.load(out)
    logits[2, 7] += np.float32(0.5)
    np.save(tmp_path / "perturbed.npy", logits)
    against = [str(out), str(tmp_path / "perturbed.npy"), str(tiny_model_file(tmp_path / "b.m", weights=FloatType.F32))]
    options = [word for path in against for word in ("--against", path)]
    exchanges = ["--buffer-float-type", "f32,bf16", "--file", str(tmp_path / "text.txt")]
    code, found, said = drift(*ids, "--nodes", "1", *exchanges, *options)
    assert code == 0 and found["identical"] is True
    same, perturbed, other = found["against"]
    assert [entry["source"] for entry in found["against"]] == against
    assert (same["same_bits"], perturbed["same_bits"]) == (True, False)
    assert perturbed["max_abs_logit_difference"] == pytest.approx(0.5, rel=1e-6) and perturbed["kl_nats"] > 0
    assert other["kl_nats"] > 0
    assert found["perplexity"].keys() == {"f32", "bf16"} and found["perplexity"]["f32"] > 1
    assert f"perplexity: f32 {found['perplexity']['f32']:.4f}, bf16 {found['perplexity']['bf16']:.4f} (" in said


def test_one_bit_of_one_setting_is_found(
    drift: Callable[..., Any], model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_read = 0

    def read(path: Path) -> np.ndarray:
        nonlocal n_read
        n_read += 1
        logits = read_logits(path)
        if n_read == 2:
            logits[1, 100] = np.nextafter(logits[1, 100], np.float32(np.inf))
        return logits

    monkeypatch.setattr(drift_jobs, "read_logits", read)
    code, found, said = drift("--model", model, "--ids", "1,2,3", "--nodes", "1,2")
    assert code == 3 and found["identical"] is False
    first, second = found["settings"]
    assert (first["same_bits"], second["same_bits"], second["first_differing_token"]) == (True, False, None)
    assert 0 < second["max_abs_logit_difference"] < 1e-5
    assert "NOT identical: 2 nodes x 1 threads, chunk 64, give another answer than the first setting of" in said
    assert "exchange f32; they part after the last layer" in said


@pytest.fixture
def spoiled_jobs(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Jobs of several nodes run tests/support/spoiled.py with such a fault in layer 1."""

    def spoil(kind: str) -> None:
        def command(placement: Placement, arguments: list[str]) -> list[str]:
            words = job_command(placement, arguments)
            at = words.index("dllama_py")
            program = ["tests.support.spoiled", kind, "1"] if placement.n_ranks > 1 else ["dllama_py"]
            return [*words[:at], *program, *words[at + 1 :]]

        monkeypatch.setattr(series, "job_command", command)

    return spoil


def test_the_node_that_computes_a_wrong_leaf_is_named(
    drift: Callable[..., Any], model: str, spoiled_jobs: Callable[[str], None]
) -> None:
    spoiled_jobs("leaf")
    code, found, said = drift("--model", model, "--ids", "1,2,3", "--nodes", "1,2", "--steps", "1")
    assert code == 3 and found["identical"] is False
    parting = {"position": 0, "layer": 1, "part": "feed-forward", "node": 1}
    assert [entry["parts_at"] for entry in found["settings"]] == [None, parting]
    assert "they part at position 0 in layer 1, feed-forward, on node 1" in said


def test_the_stage_that_computes_a_wrong_layer_is_named(
    drift: Callable[..., Any], tmp_path: Path, spoiled_jobs: Callable[[str], None]
) -> None:
    model = str(tiny_gguf(tmp_path / "a.gguf", "tiny-llama", distinct=True, num_hidden_layers=4))
    spoiled_jobs("leaf")
    asked = ["--model", model, "--ids", "1,2,3", "--nodes", "1,2", "--steps", "1", "--activations", "f32"]
    code, found, said = drift(*asked)
    assert code == 3 and found["identical"] is False
    parting = {"position": 0, "layer": 3, "part": "feed-forward", "node": 1}
    assert [entry["parts_at"] for entry in found["settings"]] == [None, parting]
    assert "they part at position 0 in layer 3, feed-forward, on node 1" in said


def test_a_node_whose_residual_stream_differs_ends_the_request(
    drift: Callable[..., Any], model: str, spoiled_jobs: Callable[[str], None]
) -> None:
    spoiled_jobs("residual")
    code, _, said = drift("--model", model, "--ids", "1,2,3", "--nodes", "2", "--steps", "1")
    assert code == 3
    assert re.search(
        "ended: .*rank 1 on .* has not the numbers of the other after layer 1 at position 0: its CPU", said
    )


def test_logits_that_cannot_be_compared(
    drift: Callable[..., Any], model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 320), np.float32))
    code, _, said = drift("--model", model, "--ids", "1,2,3", "--nodes", "1", "--against", str(tmp_path / "x.npy"))
    assert code == 2
    assert said.splitlines()[-1] == (
        f"error: {tmp_path}/x.npy has logits [2, 320]; expected [5, 320] for the prompt and what follows, "
        "or [3, 320] for the prompt alone"
    )


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros(4, np.float32), "holds float32 [4]; expected logits"),
        (np.zeros((2, 4), np.int64), "holds int64 [2, 4]; expected logits"),
        (np.array([[0, 1], [0, np.nan]], np.float32), "the logits of token 1 are not all finite"),
        (np.array([[0, None]], object), "is no .npy file"),
        (None, "is no .npy file"),
    ],
)
def test_files_that_hold_no_logits(array: np.ndarray | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    if array is not None:
        np.save(path, array)
    with pytest.raises(drift_jobs.InputError, match=words.replace("[", r"\[")):
        read_logits(path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--nodes", "3"], "--nodes 3: a model is shared by 1, 2, 4, 8, ... nodes"),
        (["--buffer-float-type", "f32,f16"], "'f16' is none of f32, bf16, q80"),
        (["--steps", "0"], "'0' is not a whole number above 0"),
        (["--ids", "1,x"], "the job of inference on 1 node ended: --ids '1,x': expected numbers"),
        (["--nodes", "8"], "the job of inference on 8 nodes ended: 8 ranks"),
    ],
)
def test_refused(drift: Callable[..., Any], model: str, arguments: list[str], words: str) -> None:
    code, _, said = drift("--model", model, *arguments)
    assert code == 2 and words in said.splitlines()[-1]


def test_not_under_mpirun(drift: Callable[..., Any], model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMI_RANK", "0")
    code, _, said = drift("--model", model)
    assert code == 2 and "drift starts its own jobs and cannot be one; run it without mpirun" in said


def test_stages_round_as_told_and_f32_is_the_answer_of_one(drift: Callable[..., Any], tmp_path: Path) -> None:
    model = str(tiny_gguf(tmp_path / "tiny.gguf"))
    settings = ["--nodes", "1,2", "--chunk", "64,2", "--activations", "f32,int8-row"]
    code, found, said = drift("--model", model, "--ids", "1,2,3,4,5", *settings)
    assert (code, found["identical"]) == (0, True)
    entries = [(s["nodes"], s["activations"], s["chunk"]) for s in found["settings"]]
    assert entries == [(1, None, 64), (1, None, 2), *[(2, each, n) for each in ("f32", "int8-row") for n in (64, 2)]]
    hashes = [s["logits_sha256"] for s in found["settings"]]
    assert (hashes[0] == hashes[1] == hashes[2] == hashes[3]) and (hashes[0] != hashes[4] == hashes[5])
    assert "stages, int8-row" in said
