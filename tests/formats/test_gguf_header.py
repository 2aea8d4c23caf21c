# python -m pytest tests/formats/test_gguf_header.py
"""GGUF headers that lie: one line, at once, without memory."""

import struct
import tracemalloc
from pathlib import Path

import pytest

from dllama_py.errors import InputError
from dllama_py.formats.checkpoint import open_checkpoint
from tests.checkpoints import tiny_gguf

U32, F32, STRING, ARRAY, U8 = 4, 6, 8, 9, 0


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def pair(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def array(item: int, count: int, items: bytes = b"") -> bytes:
    return struct.pack("<IQ", item, count) + items


def tensor(name: str, *dims: int, kind: int = 0, offset: int = 0, n_dims: int | None = None) -> bytes:
    count = len(dims) if n_dims is None else n_dims
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", count, *dims, kind, offset)


def header(*parts: bytes, tensors: int = 0, pairs: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs) + b"".join(parts)


WORDS = array(STRING, 2, text("a") + text("b"))
TWO_TENSORS = header(tensor("t", 8), tensor("u", 8, offset=32), tensors=2)

BAD = {
    "tensor count of 2^64-1": (header(tensors=2**64 - 1), "18446744073709551615 tensors, more than fit"),
    "key count of 2^64-1": (header(pairs=2**64 - 1), "18446744073709551615 metadata keys, more than fit"),
    "a dimension of 0": (header(tensor("t", 0, 4), tensors=1), r"dimensions \[0, 4\] of tensor 't'"),
    "a million dimensions": (header(tensor("t", 4, n_dims=10**6), tensors=1), "1000000 dimensions of tensor 't'"),
    "no dimensions": (header(tensor("t", n_dims=0) + bytes(16), tensors=1), "0 dimensions of tensor 't'"),
    "a product of 2^64": (header(tensor("t", 2**32, 2**32), tensors=1), "tensor 't' ends at byte 73786976294838206"),
    "alignment of 0": (header(pair("general.alignment", U32, bytes(4)), pairs=1), "alignment 0, expected a power"),
    "alignment of 24": (header(pair("general.alignment", U32, b"\x18\0\0\0"), pairs=1), "alignment 24, expected"),
    "alignment as text": (header(pair("general.alignment", STRING, text("32")), pairs=1), "alignment 32, expected"),
    "a tensor twice": (header(tensor("t", 8), tensor("t", 8, offset=32), tensors=2), "'t' for the second time"),
    "a key twice": (header(2 * pair("k", U32, bytes(4)), pairs=2), "'k' for the second time"),
    "the last byte missing": (TWO_TENSORS.ljust(159, b"\0"), "'u' ends at byte 160, the file at 159"),
    "an offset astray": (header(tensor("t", 8, offset=16), tensors=1) + bytes(99), "offset 16 of tensor 't'"),
    "an offset far out": (header(tensor("t", 8, offset=2**63), tensors=1), "'t' ends at byte 9223372036854775904"),
    "half a block": (header(tensor("t", 48, kind=2), tensors=1) + bytes(99), "rows of 48, expected whole q40 blocks"),
    "an unknown type": (header(tensor("t", 32, kind=77), tensors=1), r"type number 77 \(1 tensors\)"),
    "big-endian": (b"GGUF\0\0\0\3" + bytes(16), "is a big-endian GGUF file"),
    "version 1": (header(version=1), "GGUF version 1, versions 2 and 3 can be read"),
    "a key of 2^63 bytes": (header(struct.pack("<Q", 2**63) + bytes(99), pairs=1), "a key of 92233720368547"),
    "a name of 2^63 bytes": (header(struct.pack("<Q", 2**63) + bytes(99), tensors=1), "a tensor name of 92233720"),
    "a text of 2^63 bytes": (header(pair("k", STRING, struct.pack("<Q", 2**63)), pairs=1), "bytes of 'k', more than"),
    "2^60 numbers": (header(pair("k", ARRAY, array(U32, 2**60)), pairs=1), "1152921504606846976 items of 'k'"),
    "2^60 texts": (header(pair("k", ARRAY, array(STRING, 2**60)), pairs=1), "1152921504606846976 strings of 'k'"),
    "a long text in a list": (
        header(pair("k", ARRAY, array(STRING, 2, struct.pack("<Q", 2**63) + bytes(99))), pairs=1),
        "strings of 'k' that run past the end",
    ),
    "lists in lists": (header(pair("k", ARRAY, array(ARRAY, 1) + bytes(99)), pairs=1), "items of type 9 in 'k'"),
    "a value of no type": (header(pair("k", 13, bytes(9)), pairs=1), "value type 13 of 'k', expected 0 to 12"),
    "scores of bytes": (header(pair("tokenizer.ggml.scores", ARRAY, array(U8, 4, bytes(4))), pairs=1), "made of u8"),
    "scores too few": (
        header(
            pair("tokenizer.ggml.tokens", ARRAY, WORDS),
            pair("tokenizer.ggml.scores", ARRAY, array(F32, 1, bytes(4))),
            pairs=2,
        ),
        "tokenizer.ggml.scores has 1 items for 2 tokens",
    ),
    "tokens that are a number": (header(pair("tokenizer.ggml.tokens", U32, bytes(4)), pairs=1), "made of u32"),
    "the magic alone": (b"GGUF", "4 bytes wanted at offset 4, but the file has 4"),
    "no architecture": (header(), "architecture 'missing' is not supported"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_header_is_refused_in_one_line(tmp_path, case):
    data, message = BAD[case]
    (tmp_path / "model.gguf").write_bytes(data)
    tracemalloc.start()
    with pytest.raises(InputError, match=message) as caught:
        open_checkpoint(tmp_path / "model.gguf")
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "\n" not in str(caught.value) and str(caught.value).startswith(str(tmp_path / "model.gguf"))
    assert peak_bytes < 1_000_000


def test_a_header_cut_anywhere_is_refused(tmp_path):
    whole = tiny_gguf(tmp_path / "whole", num_hidden_layers=1).read_bytes()
    for length in [*range(0, 2000, 7), *range(2000, len(whole), 4001), len(whole) - 1]:
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(InputError):
            open_checkpoint(tmp_path / "cut")


def test_any_byte_of_a_header_may_be_wrong(tmp_path):
    """Refused or opened, but nothing else, whatever byte is damaged."""
    whole = tiny_gguf(tmp_path / "whole", num_hidden_layers=1).read_bytes()
    for place in [*range(4, 900, 3), *range(9000, 9900, 5)]:
        spoiled = bytearray(whole)
        spoiled[place] ^= 0xFF
        (tmp_path / "spoiled").write_bytes(spoiled)
        try:
            open_checkpoint(Path(tmp_path / "spoiled"))
        except InputError as error:
            assert "\n" not in str(error)
