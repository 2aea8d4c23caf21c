# python -m pytest tests/formats/test_gguf_parts.py
"""Split GGUF files: one model from any part; parts that are missing, renamed, joined or foreign are named."""

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from dllama_py.errors import InputError
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.formats.gguf import open_metadata
from dllama_py.formats.tensors import tensor_specs
from dllama_py.troubleshooting import row_of
from tests.checkpoints import tiny_gguf
from tests.formats.test_gguf_header import STRING, header, pair, text

U16, I32 = 2, 5


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tiny-llama as whole.gguf and as m-0000x-of-00003.gguf."""
    folder = tmp_path_factory.mktemp("split")
    tiny_gguf(folder / "whole.gguf", distinct=True)
    tiny_gguf(folder / "m.gguf", distinct=True, part_tensors=8)
    return folder


@pytest.fixture
def parts(written: Path, tmp_path: Path) -> list[Path]:
    """Copies of the three parts, to spoil."""
    return [Path(shutil.copy(path, tmp_path)) for path in sorted(written.glob("m-*"))]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_any_part_opens_the_whole_model(written: Path, parts: list[Path], number: int) -> None:
    whole, split = open_checkpoint(written / "whole.gguf"), open_checkpoint(parts[number])
    assert (split.config, split.path) == (whole.config, parts[0])
    assert split.file_bytes == sum(path.stat().st_size for path in parts)
    for spec in tensor_specs(whole.config):
        rows = spec.matrix_shape[0]
        np.testing.assert_array_equal(split.read(spec, 0, rows), whole.read(spec, 0, rows))
    split.release()
    assert open_metadata(parts[number])["tokenizer.ggml.tokens"] == whole.metadata["tokenizer.ggml.tokens"]


def part(number: int, count: int, *, total: int = 21, more: tuple[bytes, ...] = (), extra: bytes = b"") -> bytes:
    """A part without tensors."""
    pairs = [pair("split.no", U16, struct.pack("<H", number)), pair("split.count", U16, struct.pack("<H", count))]
    pairs += [pair("split.tensors.count", I32, struct.pack("<i", total)), *more]
    data = header(*pairs, pairs=len(pairs))
    return data.ljust(-(-len(data) // 32) * 32, b"\0") + extra


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        open_checkpoint(path)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(str(path.parent))
    return line.removeprefix(f"{path.parent}/")


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_missing_part_is_named(parts: list[Path], missing: int) -> None:
    parts[missing].unlink()
    line = refusal(parts[1 if missing != 1 else 2])
    assert line.startswith(f"m-0000{missing + 1}-of-00003.gguf: part {missing + 1} of 3 is missing; ")
    assert row_of(line) == "parts"


def test_parts_joined_by_cat_are_no_model(parts: list[Path]) -> None:
    joined = parts[0].with_name("joined.gguf")
    joined.write_bytes(b"".join(path.read_bytes() for path in parts))
    assert "joined.gguf: has another part behind its first, as `cat` joins them" in refusal(joined)
    shutil.copy(joined, parts[0])
    assert "m-00001-of-00003.gguf: has another part behind its first" in refusal(parts[2])


def test_a_first_part_without_tensors_joined_by_cat(parts: list[Path]) -> None:
    joined = parts[0].with_name("joined.gguf")
    joined.write_bytes(part(0, 2, extra=b"GGUF"))
    assert "has another part behind its first" in refusal(joined)


def test_a_part_must_keep_its_name(parts: list[Path]) -> None:
    renamed = parts[1].rename(parts[1].with_name("model.gguf"))
    assert "model.gguf: is part 2 of 3; its name must end in -00002-of-00003.gguf" in refusal(renamed)


def test_exchanged_parts_are_noticed(parts: list[Path]) -> None:
    shutil.copy(parts[2], parts[1])
    assert "m-00002-of-00003.gguf: is part 3 of 3 of another model, expected part 2 of 3" in refusal(parts[0])


FOREIGN = {
    "another number of parts": (part(1, 4), "is part 2 of 4 of another model, expected part 2 of 3"),
    "another number of tensors": (part(1, 3, total=22), "says split.tensors.count 22, m-00001-of-00003.gguf says 21"),
    "another architecture": (
        part(1, 3, more=(pair("general.architecture", STRING, text("qwen3")),)),
        "says general.architecture qwen3, m-00001-of-00003.gguf says llama",
    ),
    "no tensors": (part(1, 3), "its parts have 13 tensors together, expected 21"),
    "no part at all": (header(), "is part 1 of 1 of another model, expected part 2 of 3"),
    "no GGUF": (b"something else", "is no GGUF file, expected part 2 of 3"),
    "a count that is text": (header(pair("split.count", STRING, text("3")), pairs=1), "split.count is 3, expected a w"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_foreign_part_is_named(parts: list[Path], case: str) -> None:
    data, words = FOREIGN[case]
    parts[1].write_bytes(data)
    assert words in refusal(parts[0])


def test_a_tensor_in_two_parts(written: Path, parts: list[Path]) -> None:
    data = parts[0].read_bytes()
    at = data.index(text("split.no")) + len(text("split.no")) + 4
    parts[1].write_bytes(data[:at] + b"\1\0" + data[at + 2 :])
    assert "m-00002-of-00003.gguf: has tensor 'token_embd.weight', as m-00001-of-00003.gguf does" in refusal(parts[0])
