# python -m pytest tests/cli/test_inspect.py
"""Mode inspect: what it says of each format, what nodes need, and that it needs neither MPI nor numba."""

import json
import re
from dataclasses import replace

import pytest

from dllama_py.blocks import FloatType
from dllama_py.cli import MODES, main
from dllama_py.cli.tables import table
from dllama_py.formats.shapes import shape_named
from dllama_py.formats.synthetic import SyntheticCheckpoint
from dllama_py.model.buffers import Buffers
from dllama_py.model.kv_cache import KvCache
from dllama_py.model.memory import ASSUMED_THREADS, WORDS_PER_ROW, buffers_bytes, rank_memories
from dllama_py.settings import DEFAULT_CHUNK_ROWS
from dllama_py.sharding.kinds import tensor_kinds
from dllama_py.sharding.plan import make_plan
from dllama_py.sizes import size
from tests.checkpoints import change_config, own_folder, tiny_folder, tiny_model_file
from tests.cli.isolated import run_isolated


def facts(capsys, *arguments: str) -> dict:
    assert main(["inspect", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_a_model_file(tmp_path, capsys):
    path = tiny_model_file(tmp_path / "a.m", "tiny-qwen3moe", FloatType.Q40)
    found = facts(capsys, str(path))
    assert found["format"] == "m" and found["file_bytes"] == path.stat().st_size and not found["tied"]
    assert found["config"]["arch"] == "qwen3_moe" and found["config"]["n_layers"] == 2
    assert found["context"] == 512 and found["kv_cache_type"] == "f16"
    groups = {group["role"]: group for group in found["tensors"]}
    assert groups["embedding"] == {
        "role": "embedding", "count": 1, "shape": [320, 128], "type": "f32", "memory_type": "f32", "bytes": 163840
    }  # fmt: skip
    assert groups["q"]["count"] == 2 and groups["q"]["type"] == "q40"
    assert groups["gate"]["count"] == 2 * found["config"]["n_experts"]
    header_bytes = found["file_bytes"] - sum(group["bytes"] for group in found["tensors"])
    assert 100 < header_bytes < 300


def test_a_gguf_with_a_tied_head(smollm2_gguf, capsys):
    found = facts(capsys, str(smollm2_gguf))
    assert found["format"] == "gguf" and found["tied"] and found["context"] == 4096
    assert {group["role"]: group["type"] for group in found["tensors"]}["down"] == "q41"
    assert [needs["nodes"] for needs in found["nodes"] if "per_node" in needs] == [1, 2, 4]
    assert found["nodes"][3]["reason"].startswith("8 ranks cannot share 3 KV heads; use 1, 2 or 4 ranks, up to 8 with ")
    assert len(found["nodes"][2]["per_node"]) == 4
    with_copies = facts(capsys, str(smollm2_gguf), "--replicate-kv")
    assert len(with_copies["nodes"][3]["per_node"]) == 8


def test_a_folder_is_counted_as_it_will_be_quantised(tmp_path_factory, capsys):
    folder = str(tiny_folder(tmp_path_factory, "tiny-llama"))
    types = {}
    for weights in ([], ["--weights", "f32"]):
        found = facts(capsys, folder, *weights)
        group = next(group for group in found["tensors"] if group["role"] == "down")
        types[tuple(weights)] = (group["type"], group["memory_type"], found["kv_cache_type"], found["format"])
    assert types == {(): ("bf16", "q40", "f16", "folder"), ("--weights", "f32"): ("bf16", "f32", "f32", "folder")}


def test_a_longer_context_needs_more_cache_up_to_the_models(tmp_path, capsys):
    path = str(tiny_model_file(tmp_path / "a.m"))
    sizes = {}
    for wanted in ("64", "128", "100000"):
        found = facts(capsys, path, "--max-seq-len", wanted)
        sizes[found["context"]] = found["nodes"][0]["per_node"][0]["cache_bytes"]
    assert sizes[128] == 2 * sizes[64] and sizes[512] == 8 * sizes[64]


@pytest.mark.parametrize("name", ["smollm2_135m", "qwen3_30b_a3b", "llama3_2_1b_instruct"])
def test_counted_bytes_are_those_that_are_allocated(name):
    from dllama_py.sharding.weights import Weights

    config = replace(shape_named(name, 1), vocab_size=1000, n_experts=min(shape_named(name).n_experts, 8))
    kinds = tensor_kinds(SyntheticCheckpoint(config, FloatType.Q40), None)
    shards = make_plan(config, 4)
    for shard, memory in zip(shards, rank_memories(config, shards, kinds, 1000, True), strict=True):
        assert memory.weights_bytes == Weights(config, shard, kinds).n_bytes
        assert memory.cache_bytes == KvCache(config, shard, 1, 1000, half=True).n_bytes
        buffers = Buffers(config, shard, DEFAULT_CHUNK_ROWS, ASSUMED_THREADS, 1000)
        messages_bytes = DEFAULT_CHUNK_ROWS * (4 * config.width + 8 * WORDS_PER_ROW)  # from the root to the others
        assert buffers_bytes(config, shard, 1000) == buffers.n_bytes + messages_bytes
        assert memory.total_bytes > memory.weights_bytes + memory.cache_bytes + buffers.n_bytes


def test_the_page_for_people(smollm2_gguf, capsys):
    assert main(["inspect", str(smollm2_gguf)]) == 0
    page = capsys.readouterr().out
    assert "SmolLM2-135M-Instruct.Q4_1.gguf: GGUF file, 98.4 MB\n" in page
    assert "heads         9 over 3 KV heads, 64 wide\n" in page
    assert "down            576 x 1536   q41   q41             30  16.6\n" in page
    assert re.search(r"^all +272  96\.6\n", page, re.MULTILINE), "a head that is the embedding counts once"
    assert "the head is the embedding table, stored once\n" in page
    assert "not on 8: 8 ranks cannot share 3 KV heads" in page


def test_neither_mpi_nor_numba_is_needed(tmp_path):
    path = str(tiny_model_file(tmp_path / "a.m"))
    for arguments in ([path], [path, "--json"]):
        done = run_isolated("inspect", *arguments)
        assert done.returncode == 0 and done.stderr == ""
        assert "8" in done.stdout


@pytest.mark.parametrize("arguments", [[], *([mode] for mode in MODES), ["convert", "model"]])
def test_help_needs_neither_mpi_nor_numba(arguments):
    done = run_isolated(*arguments, "--help")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith("usage: python -m dllama_py ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.m"], "nowhere.m: there is no such file or folder"),
        ([], "the following arguments are required: FILE"),
        (["FILE", "--max-seq-len", "0"], "'0' is not a whole number above 0"),
        (["FILE", "--weights", "q80"], "--weights q80 is for Hugging Face folders"),
    ],
)
def test_errors_are_one_line_and_exit_with_2(tmp_path, capsys, arguments, message):
    path = str(tiny_model_file(tmp_path / "a.m"))
    assert main(["inspect", *[path if word == "FILE" else word for word in arguments]]) == 2
    error = capsys.readouterr().err
    assert message in error and error.startswith("error: ") and error.count("\n") == 1


def test_a_table_and_sizes():
    assert (
        table(("a", "bytes"), [("long name", 5), ("x", 12345)])
        == "a          bytes\nlong name      5\nx          12345"
    )
    assert [size(n) for n in (0, 999, 1000, 957_833_216, 5 * 10**12)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "957.8 MB",
        "5.0 TB",
    ]


def test_under_a_launcher_one_rank_speaks(tmp_path, monkeypatch, capsys):
    path = str(tiny_model_file(tmp_path / "a.m"))
    monkeypatch.setenv("PMI_RANK", "1")
    assert main(["inspect", path]) == 0
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("PMI_RANK", "0")
    assert main(["inspect", path]) == 0
    assert capsys.readouterr().out.startswith(f"{path}: .m file")


@pytest.fixture
def contradicted(tmp_path):
    """A folder with a head of its own whose config says that it is the embedding."""
    folder = own_folder(tmp_path / "contradicted", "tiny-llama")
    change_config(folder, tie_word_embeddings=True)
    return folder


HEAD_USED = "config.json says tie_word_embeddings true; the stored lm_head.weight is used"


def test_a_head_that_contradicts_the_config_is_told(contradicted, capsys):
    assert HEAD_USED in facts(capsys, str(contradicted))["notes"][0]
    assert main(["inspect", str(contradicted)]) == 0
    assert capsys.readouterr().out.count(HEAD_USED) == 1


def test_so_it_is_by_the_converter_and_at_the_start_of_a_run(contradicted, tmp_path, capsys):
    assert main(["convert", "model", str(contradicted), "q40", "a", "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().err.count(HEAD_USED) == 1
    assert main(["inference", "--model", str(contradicted), "--ids", "1,2,3", "--steps", "2", "--nthreads", "1"]) == 0
    assert capsys.readouterr().err.count(HEAD_USED) == 1
