# python -m pytest tests/cli/test_hostile_files.py
"""Broken, hostile and unsupported models through the real commands: one line, exit code 2, at once, in little memory,
and nothing half-written.
"""

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dllama_py.cli import main
from tests.checkpoints import change_config, own_folder, tiny_gguf, tiny_model_file
from tests.formats.spoiling import FIRST, INDEX, SECOND, add_tensor, edit_index
from tests.formats.test_gguf_header import BAD
from tests.support.measured import Measured, measured

MOST_S = 1.0
MOST_BYTES = 50_000_000

Spoil = Callable[[Path], None]


def content(data: bytes) -> Spoil:
    return lambda path: void(path.write_bytes(data))


def void(_: object) -> None:
    """Only what it did counts."""


def folder_with(*without: str, name: str = "tiny-llama", **changes: object) -> Spoil:
    """A folder whose config.json is changed behind the back of its tensors."""

    def spoil(path: Path) -> None:
        own_folder(path, name)
        change_config(path, *without, **changes)

    return spoil


def spoiled_folder(change: Spoil) -> Spoil:
    def spoil(path: Path) -> None:
        change(own_folder(path))

    return spoil


def cut(make: Callable[[Path], object], n_bytes: int) -> Spoil:
    def spoil(path: Path) -> None:
        make(path)
        data = path.read_bytes()
        path.write_bytes(data[: len(data) + n_bytes if n_bytes < 0 else n_bytes])

    return spoil


def patched(make: Callable[[Path], object], offset: int, data: bytes) -> Spoil:
    def spoil(path: Path) -> None:
        make(path)
        whole = bytearray(path.read_bytes())
        whole[offset : offset + len(data)] = data
        path.write_bytes(whole)

    return spoil


def stray_gguf(arch: str) -> Spoil:
    """A GGUF that names an architecture and has nothing else."""
    key, value = b"general.architecture", arch.encode()
    pair = struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, len(value)) + value
    return content(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + pair)


def quantised(method: str) -> Spoil:
    return folder_with(quantization_config={"quant_method": method, "bits": 4})


HEADER = struct.Struct("<ii")
FP8 = np.full((128, 128), 0x38, np.uint8)
ONES = np.ones((128, 128), np.float32)

STRANGERS: dict[str, tuple[Spoil, str]] = {
    "an empty file": (content(b""), "the file is empty"),
    "an LFS pointer": (content(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), "is a Git LFS pointer"),
    "a web page": (content(b"<!DOCTYPE html><html>404</html>"), "is a web page"),
    "a zip archive": (content(b"PK\x03\x04" + bytes(99)), "is a zip archive"),
    "something else": (content(b"hello world"), "which is no known model format"),
    "a shard alone": (content(struct.pack("<Q", 2) + b"{}" + bytes(9)), "is one file of a Hugging Face checkpoint"),
    "a tokenizer": (content(b"\x24\x71\x56\x00" + bytes(99)), "is a tokenizer file; give it to --tokenizer"),
    "nothing there": (void, "there is no such file or folder"),
}

MODEL_FILES: dict[str, tuple[Spoil, str]] = {
    "cut by one byte": (cut(tiny_model_file, -1), "inside head, which ends at"),
    "the magic alone": (cut(tiny_model_file, 4), "wanted at offset"),
    "half a header": (cut(tiny_model_file, 60), "128 bytes wanted at offset 8, but the file has 60"),
    "a header of 2 GB": (patched(tiny_model_file, 4, struct.pack("<i", 2**31 - 1)), "header"),
    "a negative header": (patched(tiny_model_file, 4, struct.pack("<i", -8)), "header"),
    "an unknown key": (patched(tiny_model_file, 8, HEADER.pack(999, 1)), "key 999"),
    "big-endian": (content(b"\x0a\x00\xab\xcd" + bytes(99)), "is a big-endian model file"),
    "an old format": (content(b"\x00\xcd\xab\x00" + bytes(99)), "is an old model format"),
    "bytes too many": (
        lambda path: void(path.write_bytes(tiny_model_file(path).read_bytes() + b"more")),
        "4 bytes follow the last",
    ),
}

FOLDERS: dict[str, tuple[Spoil, str]] = {
    "a shard that is gone": (spoiled_folder(lambda f: (f / SECOND).unlink()), SECOND),
    "a tensor that its shard lacks": (
        spoiled_folder(lambda f: edit_index(f, **{"model.norm.weight": SECOND})), "model.norm.weight"),
    "two shards with the same names": (
        spoiled_folder(lambda f: void(((f / INDEX).unlink(), (f / SECOND).write_bytes((f / FIRST).read_bytes())))),
        "is in both",
    ),
    "a shard cut by a byte": (spoiled_folder(
        lambda f: void((f / FIRST).write_bytes((f / FIRST).read_bytes()[:-1]))), FIRST),
    "a shard that is a pointer": (
        spoiled_folder(lambda f: void((f / FIRST).write_bytes(b"version https://git-lfs.github.com/spec/v1\n"))),
        "is a Git LFS pointer",
    ),
    "a header of 2^63 bytes": (
        spoiled_folder(lambda f: void((f / FIRST).write_bytes(struct.pack("<Q", 2**63) + b"{}"))), FIRST),
    "fp8 with its scale": (
        spoiled_folder(lambda f: add_tensor(f, "model.layers.0.self_attn.q_proj.weight", FP8, "F8_E4M3")), "F8_E4M3"),
    "a scale that nothing uses": (
        spoiled_folder(lambda f: add_tensor(f, "model.layers.0.self_attn.q_proj.weight.scale", ONES)), "weight.scale"),
    "gptq": (quantised("gptq"), "quantised by gptq, which cannot be read"),
    "awq": (quantised("awq"), "quantised by awq, which cannot be read"),
    "fp8": (quantised("fp8"), "quantised by fp8, which cannot be read"),
    "bitsandbytes": (quantised("bitsandbytes"), "quantised by bitsandbytes, which cannot be read"),
    "qwen3_5": (folder_with(model_type="qwen3_5"), "model_type 'qwen3_5' is not supported; llama, mistral, "),
    "gemma3": (folder_with(model_type="gemma3"), "model_type 'gemma3' is not supported; llama, mistral, "),
    "deepseek_v3": (folder_with(model_type="deepseek_v3"), "model_type 'deepseek_v3' is not supported; llama, "),
    "another scaling": (folder_with(rope_scaling={"rope_type": "foo", "factor": 2.0}), "RoPE scaling 'foo' is not"),
    "head_dim left out": (folder_with("head_dim", name="tiny-qwen3"), "config.json makes it [128, 128]"),
    "no RoPE base": (folder_with("rope_theta", name="tiny-qwen3"), "rope_theta is missing"),
    "no config": (spoiled_folder(lambda f: (f / "config.json").unlink()), "config.json"),
    "a config that is none": (spoiled_folder(lambda f: void((f / "config.json").write_text("{"))), "config.json"),
    "a list for a config": (spoiled_folder(lambda f: void((f / "config.json").write_text("[]"))), "config.json"),
    "an index that is none": (spoiled_folder(lambda f: void((f / INDEX).write_text("[1]"))), INDEX),
    "a billion layers": (folder_with(num_hidden_layers=10**9), "1000000000 layers"),
    "an empty folder": (lambda path: path.mkdir(), "config.json"),
}  # fmt: skip

GGUF: dict[str, tuple[Spoil, str]] = {
    **{name: (content(data), "") for name, (data, _) in BAD.items()},
    "qwen35": (stray_gguf("qwen35"), "architecture 'qwen35' is not supported; llama, "),
    "gemma2": (stray_gguf("gemma2"), "architecture 'gemma2' is not supported; llama, "),
    "a GGUF cut by a byte": (cut(tiny_gguf, -1), "the file at"),
    "a GGUF cut in its header": (cut(tiny_gguf, 2000), ""),
}

TABLES = {"stranger": STRANGERS, "model file": MODEL_FILES, "folder": FOLDERS, "gguf": GGUF}
CASES = [(table, name) for table, cases in TABLES.items() for name in cases]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """All of them, spoiled."""
    made = {}
    for number, (table, name) in enumerate(CASES):
        made[table, name] = tmp_path_factory.mktemp("hostile") / f"model{number}"
        TABLES[table][name][0](made[table, name])
    return made


@pytest.fixture(scope="module")
def told(files: dict[tuple[str, str], Path]) -> dict[tuple[str, str, str], Measured]:
    """What inspect and inference did, by mode and case."""
    jobs: dict[tuple[str, str, str], list[str]] = {}
    for (table, name), path in files.items():
        jobs["inspect", table, name] = ["inspect", str(path)]
        jobs["inference", table, name] = ["inference", "--model", str(path), "--prompt", "a"]
    return dict(zip(jobs, measured(list(jobs.values())), strict=True))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["inspect", "inference"])
@pytest.mark.parametrize(("table", "name"), CASES)
def test_one_line_at_once(
    mode: str, table: str, name: str, files: dict[tuple[str, str], Path], told: dict[tuple[str, str, str], Measured]
) -> None:
    done = told[mode, table, name]
    assert (done.code, done.out) == (2, ""), done.err
    (line,) = done.err.splitlines()
    assert line.startswith("error: ") and TABLES[table][name][1] in line
    assert files[table, name].name in line
    assert done.seconds < MOST_S
    assert done.grown_bytes < MOST_BYTES


@pytest.mark.parametrize(("table", "name"), CASES)
def test_nothing_is_half_written(
    table: str, name: str, files: dict[tuple[str, str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", "model", str(files[table, name]), "q40", "tiny", "--output", str(tmp_path)]) == 2
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().err.count("\n") == 1


def no_number(folder: Path) -> None:
    """Two of the last values of the last matrix are none."""
    own_folder(folder, distinct=True)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\xff\x7f\xff\x7f")


def infinite_scale(path: Path) -> None:
    """Of the last block of a q40 head."""
    tiny_model_file(path)
    path.write_bytes(path.read_bytes()[:-18] + b"\x00\x7c" + b"\x99" * 16)


@pytest.mark.parametrize(("spoil", "tensor"), [(no_number, "layers.1.down"), (infinite_scale, "head")])
def test_weights_that_are_no_numbers(spoil: Spoil, tensor: str, tmp_path: Path) -> None:
    """Seen before anything is compiled or loaded, whatever is to be done with them."""
    spoil(tmp_path / "tiny")
    out = tmp_path / "out"
    out.mkdir()
    commands = [
        ["convert", "model", str(tmp_path / "tiny"), "q40", "tiny", "--output", str(out)],
        ["inference", "--model", str(tmp_path / "tiny"), "--ids", "1"],
    ]
    for done in measured(commands):
        assert (done.code, done.out) == (2, ""), done.err
        (line,) = done.err.splitlines()
        assert f"tiny: {tensor} holds a value that is infinite or not a number" in line
        assert done.seconds < MOST_S
        assert done.grown_bytes < MOST_BYTES
    assert list(out.iterdir()) == []
