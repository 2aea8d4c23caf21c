# python -m pytest tests/formats/test_tokenizer_file.py
"""`.t` files, byte for byte: today's, those of older programs, and those that cannot be read."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dllama_py.errors import InputError
from dllama_py.formats.tokenizer_file import is_tokenizer_file, read_tokenizer_file, tokenizer_file_bytes
from dllama_py.token_list import TokenList
from tests.fuzzing import for_some_time

TOKENS = TokenList([b"a", b"b", b"ab", b"<s>", b"</s>"], [-0.0, -1.0, -2.0, -3.0, -4.0], 3, (4, 3), True, "{{ x }}é")

# fmt: off
BYTES = bytes.fromhex(
    "24715600" "40000000"  # magic, size of the header
    "03000000" "03000000"  # begin token
    "00000000" "01000000"  # version
    "01000000" "05000000"  # tokens
    "02000000" "04000000"  # longest token
    "07000000" "09000000"  # template
    "09000000" "02000000"  # end tokens
    "0a000000" "01000000"  # begin token goes first
) + "{{ x }}é".encode() + bytes.fromhex(
    "04000000" "03000000"
    "00000080" "01000000" "61"
    "000080bf" "01000000" "62"
    "000000c0" "02000000" "6162"
    "000040c0" "03000000" "3c733e"
    "000080c0" "04000000" "3c2f733e"
)
# fmt: on


def written(folder: Path, data: bytes) -> Path:
    path = folder / "a.t"
    path.write_bytes(data)
    return path


def with_pairs(*pairs: tuple[int, int], rest: bytes = b"") -> bytes:
    body = b"".join(struct.pack("<ii", *pair) for pair in pairs)
    return b"\x24\x71\x56\x00" + struct.pack("<i", 8 + len(body)) + body + rest


RECORDS = b"".join(struct.pack("<fI", -id, len(token)) + token for id, token in enumerate(TOKENS.tokens))


def test_written_as_the_reference_converter_does() -> None:
    assert tokenizer_file_bytes(TOKENS) == BYTES


def test_without_a_template_its_key_is_left_out() -> None:
    data = tokenizer_file_bytes(replace(TOKENS, template=None, add_bos=False))
    assert data[:8] == b"\x24\x71\x56\x00\x38\x00\x00\x00"
    assert (7, 0) not in struct.iter_unpack("<ii", data[8:56])
    assert list(struct.iter_unpack("<ii", data[8:56]))[-1] == (10, 0)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, BYTES + b"ignored")
    assert is_tokenizer_file(path)
    assert read_tokenizer_file(path) == TOKENS


def test_legacy(tmp_path: Path) -> None:
    data = b"\x23\x71\x56\x00" + struct.pack("<5i", 5, 4, 3, 4, -1) + RECORDS
    read = read_tokenizer_file(written(tmp_path, data))
    assert is_tokenizer_file(tmp_path / "a.t")
    assert read == replace(TOKENS, eos_ids=(4,), template=None)
    none = b"\x23\x71\x56\x00" + struct.pack("<5i", 5, 4, -1, -1, -1) + RECORDS
    read = read_tokenizer_file(written(tmp_path, none))
    assert (read.bos_id, read.eos_ids) == (None, ())


def test_end_tokens_and_stop_text_of_older_files(tmp_path: Path) -> None:
    """Ids in the header go before those after the template; the stop text between them is skipped."""
    pairs = ((0, 1), (1, 5), (2, 4), (3, 3), (4, 4), (5, 0), (6, 3), (7, 3), (8, 4), (9, 1))
    read = read_tokenizer_file(written(tmp_path, with_pairs(*pairs, rest=b"{x}stop\x04\0\0\0" + RECORDS)))
    assert (read.template, read.eos_ids, read.add_bos) == ("{x}", (4, 3), True)


OK = ((0, 1), (1, 5), (2, 4), (3, 3))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "a.t: 4 bytes wanted at offset 0, but the file has 0"),
        (b"GGUF....", "starts with the bytes 47 47 55 46, a .t file with 24 71 56 00"),
        (b"\x24\x71\x56\x00\x10", "4 bytes wanted at offset 4"),
        (b"\x23\x71\x56\x00\x05", "20 bytes wanted at offset 4"),
        (with_pairs(), "a header of 8 bytes cannot be"),
        (b"\x24\x71\x56\x00\xff\xff\xff\x7f" + bytes(64), "a header of 2147483647 bytes cannot be"),
        (b"\x24\x71\x56\x00\xff\xff\xff\xff" + bytes(64), "a header of -1 bytes cannot be"),
        (with_pairs(*OK, (11, 7), rest=RECORDS), r"header key 11 \(value 7\) is not known, keys 0 to 10 are"),
        (with_pairs((0, 2), (1, 5), rest=RECORDS), "has version 2 of the tokenizer format, only 1"),
        (with_pairs((1, 5), rest=RECORDS), "has version none"),
        (with_pairs(*OK, (7, -1), rest=RECORDS), "negative length -1"),
        (with_pairs(*OK, (7, 2**31 - 1), rest=RECORDS), "2147483647 bytes wanted"),
        (with_pairs(*OK, (9, 2**31 - 1), rest=RECORDS), "8589934588 bytes wanted"),
        (with_pairs(*OK, (7, 1), rest=b"\xff" + RECORDS), "byte 0 of its chat template is no UTF-8"),
        (with_pairs((0, 1), (1, 0), rest=RECORDS), "0 tokens do not fit"),
        (with_pairs((0, 1), (1, -5), rest=RECORDS), "-5 tokens do not fit"),
        (with_pairs((0, 1), (1, 2**31 - 1), rest=RECORDS), "2147483647 tokens do not fit"),
        (with_pairs(*OK, rest=RECORDS[:-2]), "ends within token 4 of 5"),
        (with_pairs(*OK, rest=RECORDS[:9] + bytes(8) + RECORDS), "token 1 of 5 has 0 bytes and the score 0.0"),
        (with_pairs(*OK, rest=struct.pack("<fI", float("nan"), 1) + b"a" + RECORDS), "the score nan"),
        (with_pairs(*OK, rest=struct.pack("<fI", 0, 2**32 - 1) + RECORDS), "ends within token 0 of 5"),
        (with_pairs((0, 1), (1, 5), (3, 5), rest=RECORDS), "names token 5 as begin or end, it has 0 to 4"),
        (with_pairs(*OK, (4, -1), rest=RECORDS), "names token -1 as begin or end"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_tokenizer_file(written(tmp_path, data))
    assert "\n" not in str(caught.value)


def test_what_cannot_be_written() -> None:
    with pytest.raises(InputError, match="token 1 is empty"):
        tokenizer_file_bytes(replace(TOKENS, tokens=[b"a", b"", b"c", b"d", b"e"]))
    with pytest.raises(InputError, match="name 5 as begin or end token"):
        tokenizer_file_bytes(replace(TOKENS, eos_ids=(5,)))
    with pytest.raises(InputError, match="no begin token"):
        tokenizer_file_bytes(replace(TOKENS, bos_id=None))


def test_a_file_that_is_none(tmp_path: Path) -> None:
    assert not is_tokenizer_file(tmp_path) and not is_tokenizer_file(tmp_path / "none")
    assert not is_tokenizer_file(written(tmp_path, b"\x24"))


damage = st.lists(
    st.tuples(st.integers(0, len(BYTES) - 1), st.integers(0, 255) | st.sampled_from([0, 1, 127, 255])), max_size=6
)


def test_fuzzing_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    """Nothing but an InputError of one line, whatever the bytes."""

    @settings(max_examples=300)
    @given(damage, st.integers(0, len(BYTES)), st.sampled_from([BYTES[:4], b"\x23\x71\x56\x00"]))
    def check(changes: list[tuple[int, int]], length: int, magic: bytes) -> None:
        data = bytearray(BYTES)
        for place, value in changes:
            data[place] = value
        data[:4] = magic
        try:
            read = read_tokenizer_file(written(tmp_path, bytes(data[: len(data) if changes else length])))
        except InputError as error:
            assert "\n" not in str(error)
        else:
            assert all(read.tokens) and len(read.tokens) == len(read.scores)

    for_some_time(check)
