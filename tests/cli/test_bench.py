# python -m pytest tests/cli/test_bench.py
import json

import pytest

from dllama_py.cli import bench_series, main
from dllama_py.cli.bench_minutes import rate_in
from dllama_py.cli.bench_series import best_nodes, best_threads, thread_counts
from dllama_py.cluster.series import Job
from dllama_py.errors import InputError

TINY = ["--shape", "smollm2_135m", "--layers", "2", "--prompt-tokens", "5", "--steps", "4"]

KEYS = {
    "decode_tok_s",
    "prefill_tok_s",
    "weight_bytes_per_token",
    "read_gb_s",
    "roofline",
    "gemm_gmac_s",
    "kernel_gmac_s",
    "gemm_share",
    "sync_ms_per_token",
    "python_ms_per_token",
    "load_s",
    "compile_s",
    "private_bytes",
}


def test_figures_of_a_cut_shape(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--json", *TINY, "--nthreads", "1"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    figures = json.loads(line)
    assert figures.keys() >= KEYS
    layer = 576 * 576 * 2 + 2 * 576 * 192 + 3 * 576 * 1536
    assert figures["weight_bytes_per_token"] == (2 * layer + 49152 * 576) * 18 // 32
    read = figures["weight_bytes_per_token"] * figures["decode_tok_s"] / figures["roofline"]
    assert read == pytest.approx(figures["read_gb_s"] * 1e9)
    assert figures["gemm_gmac_s"] == pytest.approx(2 * layer * figures["prefill_tok_s"] / 1e9)
    assert figures["gemm_share"] == pytest.approx(figures["gemm_gmac_s"] / figures["kernel_gmac_s"])
    assert all(figures[key] > 0 for key in KEYS - {"sync_ms_per_token", "private_bytes"})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--shape", "gpt5"], ["gpt5", "qwen3_0.6b"]),
        (["--shape", "smollm2_135m", "--model", "a.m"], ["--shape", "--model"]),
        (["--layers", "2"], ["--layers", "--shape"]),
        (["--weights", "q4_k"], ["--weights q4_k", "--shape", "q40, q80, f16, f32"]),
        (["--shape", "smollm2_135m", "--weights", "q4_k"], ["rows of 576", "q4_k", "another shape or type"]),
        (["--nodes", "1,2", "--minutes", "1"], ["--nodes", "--minutes", "one of them"]),
        (["--nthreads", "auto", "--nodes", "1"], ["--nodes", "--nthreads auto"]),
        (["--nthreads", "some"], ["--nthreads", "'some'"]),
        (["--minutes", "-1"], ["--minutes", "'-1'"]),
        (["--minutes", "nan"], ["--minutes", "'nan'"]),
        (["--nodes", "3"], ["--nodes 3", "1, 2, 4, 8"]),
        (["--shape", "smollm2_135m", "--steps", "1"], ["--steps 1", "at least 2"]),
        (["--shape", "smollm2_135m", "--prompt-tokens", "4090"], ["4154 tokens", "--max-seq-len"]),
    ],
)
def test_what_cannot_be_measured(arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert [word for word in words if word not in line] == []


@pytest.mark.parametrize("option", [["--nodes", "1,2"], ["--nthreads", "auto"]])
def test_a_job_cannot_compare_jobs(
    option: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "1")
    assert main(["bench", *TINY, *option]) == 2
    assert "without mpirun" in capsys.readouterr().err


def test_node_counts_that_cannot_be_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--json", *TINY, "--nthreads", "1", "--nodes", "2,8"]) == 0  # 3 KV heads: 8 are refused
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert ([figures["nodes"] for figures in found["settings"]], found["recommended"]) == ([2], 2)
    assert found["advice"].startswith("use 2 nodes")
    assert "not measured: the job of bench on 8 nodes ended: 8 ranks" in told.err


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Those that were asked for; each further one finds half the speed of the one before."""
    asked: list[Job] = []

    def answer(job: Job) -> dict[str, float]:
        asked.append(job)
        return dict.fromkeys(bench_series.COLUMNS, 10 / 2 ** len(asked))

    monkeypatch.setattr(bench_series, "answer_of", answer)
    return asked


def test_node_counts_are_measured_one_after_the_other(jobs: list[Job], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *TINY, "--nodes", "2,1"]) == 0
    assert [job.placement.n_ranks for job in jobs] == [1, 2]
    assert jobs[0].arguments[:4] == ["bench", "--json", "--shape", "smollm2_135m"]
    assert capsys.readouterr().out.splitlines()[-1].startswith("use 1 node: 5.0 tok/s (2: 2.5)")


def test_no_node_count_that_works(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(job: Job) -> dict[str, float]:
        raise InputError(f"{job.placement.n_ranks} ranks are too many")

    monkeypatch.setattr(bench_series, "answer_of", refuse)
    assert main(["bench", *TINY, "--nodes", "8"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: 8 ranks are too many")


def test_numbers_of_threads_are_measured(
    jobs: list[Job], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_series, "thread_counts", lambda n_cores, n_cpus: [1, 2])
    assert main(["bench", *TINY, "--nthreads", "auto"]) == 0
    assert [job.arguments[-2:] for job in jobs] == [["--nthreads", "1"], ["--nthreads", "2"]]
    out = capsys.readouterr().out.splitlines()
    assert out[0].split()[:2] == ["threads", "decode"]
    assert out[-1] == "use --nthreads 1 on this machine: 5.0 tok/s"


@pytest.mark.parametrize(
    ("n_cores", "n_cpus", "counts"), [(1, 1, [1]), (2, 2, [1, 2]), (4, 8, [1, 2, 4, 8]), (6, 6, [1, 2, 4, 6])]
)
def test_which_numbers_of_threads(n_cores: int, n_cpus: int, counts: list[int]) -> None:
    assert thread_counts(n_cores, n_cpus) == counts


@pytest.mark.parametrize(
    ("rates", "best"),
    [
        ({1: 10.0}, 1),
        ({1: 10.0, 2: 11.9}, 1),
        ({1: 10.0, 2: 12.0}, 2),
        ({1: 10.0, 2: 11.0, 4: 12.5}, 4),
        ({1: 10.0, 2: 15.0, 4: 17.0}, 2),
        ({2: 10.0, 4: 9.0}, 2),
    ],
)
def test_more_nodes_must_bring_a_fifth(rates: dict[int, float], best: int) -> None:
    assert best_nodes(rates) == best


@pytest.mark.parametrize(
    ("rates", "best"), [({1: 10.0, 2: 19.0, 4: 19.4}, 2), ({1: 10.0, 2: 18.0, 4: 19.4}, 4), ({2: 5.0, 4: 4.0}, 2)]
)
def test_threads_that_bring_nothing_are_left_to_others(rates: dict[int, float], best: int) -> None:
    assert best_threads(rates) == best


def test_whether_the_speed_lasts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--json", *TINY, "--nthreads", "1", "--minutes", "0.02"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["window_s"] == pytest.approx(0.6, abs=0.3)
    assert found["first_tok_s"] > 0 and found["last_tok_s"] > 0
    assert found["change"] == pytest.approx(found["last_tok_s"] / found["first_tok_s"] - 1)
    assert [node.keys() for node in found["nodes"]] == [
        {"host", "first_mhz", "first_celsius", "last_mhz", "last_celsius"}
    ]


def test_rates_are_those_of_decoding_alone() -> None:
    steps = [(10.0, 0.5), (10.5, 0.5), (20.0, 0.25), (20.25, 0.25)]  # a prompt lies between
    assert (rate_in(steps, 10.0, 11.0), rate_in(steps, 11.0, 21.0), rate_in(steps, 30.0, 31.0)) == (2.0, 4.0, 0.0)
