"""The header of a GGUF file: version, metadata and the table of tensors, checked against the file's size.

It knows ggml's type numbers, not model architectures.
"""

from dataclasses import dataclass

from dllama_py.errors import InputError
from dllama_py.float_types import FloatType
from dllama_py.formats.gguf_metadata import Cursor, Metadata
from dllama_py.formats.mapped import MappedFile

MAGIC = b"GGUF"
_DEFAULT_ALIGNMENT = 32
_MAX_DIMS = 4
_LEAST_TENSOR_BYTES = 8 + 4 + 8 + 4 + 8  # name length, number of dims, one dim, type, offset
_READABLE = {kind.ggml_type: kind for kind in FloatType}
_GGML_NAMES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K",
    12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
    20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
    29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip
_ARRAY_TYPES = {
    "tokenizer.ggml.tokens": ("string",),
    "tokenizer.ggml.merges": ("string",),
    "tokenizer.ggml.scores": ("f32", "f64"),
    "tokenizer.ggml.token_type": ("i32", "u32", "i8", "u8", "i16", "u16", "i64", "u64"),  # writers differ
}


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One entry of the table; shape in row-major order (outputs before inputs), bytes [offset, end) of its file."""

    name: str
    shape: tuple[int, ...]
    kind: FloatType
    file: MappedFile
    offset: int
    end: int


@dataclass(frozen=True, slots=True)
class Header:
    """What stands before the data of one file."""

    file: MappedFile
    metadata: Metadata
    tensors: dict[str, GgufTensor]
    alignment: int
    data_start: int


def read_header(file: MappedFile) -> Header:
    """Metadata and all tensors of a mapped GGUF file; InputError if anything does not fit or is of an unread type."""
    cursor = Cursor(file, len(MAGIC))
    _check_version(file, cursor.scalar("<I"))
    n_tensors = int(cursor.scalar("<Q"))
    n_pairs = cursor.count(8 + 4 + 1, "metadata keys")
    cursor.fits(n_tensors, _LEAST_TENSOR_BYTES, "tensors")
    metadata = Metadata(cursor, n_pairs)
    _check_arrays(file, metadata)
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
        raise InputError(f"{file.path}: alignment {alignment}, expected a power of two; the file is damaged")
    entries = _entries(cursor, n_tensors, alignment)
    data_start = -(-cursor.offset // alignment) * alignment
    tensors = {name: _placed(file, entry, data_start) for name, entry in entries.items()}
    return Header(file, metadata, tensors, alignment, data_start)


def _check_version(file: MappedFile, version: int) -> None:
    if version & 0xFFFF == 0 and version:
        raise InputError(f"{file.path}: is a big-endian GGUF file; get the little-endian one")
    if version not in (2, 3):
        raise InputError(f"{file.path}: GGUF version {version}, versions 2 and 3 can be read; get a newer conversion")


def _check_arrays(file: MappedFile, metadata: Metadata) -> None:
    """The text side relies on these types and lengths."""
    n_tokens = metadata.array_type("tokenizer.ggml.tokens")[1] if "tokenizer.ggml.tokens" in metadata else None
    for key, expected in _ARRAY_TYPES.items():
        if key not in metadata:
            continue
        found, count = metadata.array_type(key)
        if found not in expected:
            raise InputError(f"{file.path}: {key} is made of {found}, expected {expected[0]}; the file is damaged")
        if key.endswith(("scores", "token_type")) and count != n_tokens:
            raise InputError(f"{file.path}: {key} has {count} items for {n_tokens} tokens; the file is damaged")


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry as the file has it: dims with the fastest first, offset from the start of the data."""

    name: str
    dims: tuple[int, ...]
    type_number: int
    offset: int


def _entries(cursor: Cursor, n_tensors: int, alignment: int) -> dict[str, _Entry]:
    entries: dict[str, _Entry] = {}
    for _ in range(n_tensors):
        entry = _entry(cursor, alignment)
        if entry.name in entries:
            raise cursor.error(f"the tensor {entry.name!r} for the second time")
        entries[entry.name] = entry
    _refuse_unread_types(cursor.file, list(entries.values()))
    return entries


def _entry(cursor: Cursor, alignment: int) -> _Entry:
    name = cursor.string(1024, "a tensor name")
    n_dims = cursor.scalar("<I")
    if not 1 <= n_dims <= _MAX_DIMS:
        raise cursor.error(f"{n_dims} dimensions of tensor {name!r}, expected 1 to {_MAX_DIMS}")
    dims = tuple(int(cursor.scalar("<Q")) for _ in range(n_dims))
    if 0 in dims:
        raise cursor.error(f"dimensions {list(dims)} of tensor {name!r}, expected none to be 0")
    entry = _Entry(name, dims, cursor.scalar("<I"), int(cursor.scalar("<Q")))
    if entry.offset % alignment:
        raise cursor.error(f"offset {entry.offset} of tensor {name!r}, expected a multiple of {alignment}")
    return entry


def _refuse_unread_types(file: MappedFile, entries: list[_Entry]) -> None:
    counts: dict[str, int] = {}
    for entry in entries:
        if entry.type_number not in _READABLE:
            name = _GGML_NAMES.get(entry.type_number, f"number {entry.type_number}")
            counts[name] = counts.get(name, 0) + 1
    if counts:
        found = ", ".join(f"{name} ({count} tensors)" for name, count in counts.items())
        known = ", ".join(_GGML_NAMES[number] for number in _READABLE)
        raise InputError(f"{file.path}: has tensors of type {found}; {known} can be read, get a file made of these")


def _placed(file: MappedFile, entry: _Entry, data_start: int) -> GgufTensor:
    kind = _READABLE[entry.type_number]
    if entry.dims[0] % kind.block_elements:
        raise InputError(
            f"{file.path}: tensor {entry.name!r} has rows of {entry.dims[0]}, expected whole {kind.label} blocks of "
            f"{kind.block_elements}; the file is damaged"
        )
    blocks = entry.dims[0] // kind.block_elements
    for dim in entry.dims[1:]:
        blocks *= dim
    end = data_start + entry.offset + blocks * kind.block_bytes
    if end > file.size:
        raise InputError(
            f"{file.path}: tensor {entry.name!r} ends at byte {end}, the file at {file.size}; "
            "it was cut short or is damaged, get it again"
        )
    return GgufTensor(entry.name, entry.dims[::-1], kind, file, data_start + entry.offset, end)
