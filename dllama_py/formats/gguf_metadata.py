"""The key-value part of a GGUF file: found by one walk, decoded only on look-up.

Every count and length comes from an untrusted file, so all of them are compared with the file's size as Python
integers before anything is read or allocated. It does not know what the keys mean.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dllama_py.errors import InputError
from dllama_py.formats.mapped import MappedFile

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_NAMES = {
    0: "u8", 1: "i8", 2: "u16", 3: "i16", 4: "u32", 5: "i32", 6: "f32", 7: "bool", 8: "string", 9: "array",
    10: "u64", 11: "i64", 12: "f64",
}  # fmt: skip
_STRING, _ARRAY = 8, 9
_LENGTH = struct.Struct("<Q")


class Cursor:
    """A place in a mapped file that moves on as values are read."""

    def __init__(self, file: MappedFile, offset: int) -> None:
        self.file = file
        self.offset = offset

    def scalar(self, layout: str) -> Any:
        size = struct.calcsize(layout)
        (value,) = struct.unpack(layout, self.file.read(self.offset, size))
        self.offset += size
        return value

    def string(self, limit: int, what: str) -> str:
        length = self.scalar("<Q")
        if length > limit:
            raise self.error(f"{what} of {length} bytes, expected at most {limit}")
        text = self.file.read(self.offset, length)
        self.offset += length
        return text.decode("utf-8", "surrogateescape")

    def count(self, least_bytes: int, what: str) -> int:
        """A count of items that take at least this many bytes each and must fit in the rest of the file."""
        count = int(self.scalar("<Q"))
        self.fits(count, least_bytes, what)
        return count

    def fits(self, count: int, least_bytes: int, what: str) -> None:
        if count * least_bytes > self.file.size - self.offset:
            raise self.error(f"{count} {what}, more than fit in the rest of the file ({self.file.size} bytes)")

    def error(self, found: str) -> InputError:
        return InputError(f"{self.file.path}: at byte {self.offset}: {found}; the file is damaged, get it again")


class Metadata(Mapping[str, Any]):
    """Keys to values: numbers, bool, str, numpy arrays of numbers, lists of str. Values are made when asked for."""

    def __init__(self, cursor: Cursor, n_pairs: int) -> None:
        self._file = cursor.file
        self._places: dict[str, tuple[int, int]] = {}  # type number, offset of the value
        for _ in range(n_pairs):
            key = cursor.string(65535, "a key")
            kind = cursor.scalar("<I")
            if key in self._places:
                raise cursor.error(f"the key {key!r} for the second time")
            self._places[key] = (kind, cursor.offset)
            _skip(cursor, kind, key)

    def __getitem__(self, key: str) -> Any:
        kind, offset = self._places[key]
        return _decode(Cursor(self._file, offset), kind)

    def __contains__(self, key: object) -> bool:
        return key in self._places  # inherited, it would decode the value: 0.3 s for a vocabulary

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def array_type(self, key: str) -> tuple[str, int]:
        """Item type and number of items of an array, without decoding it; another value is 0 items of its type."""
        kind, offset = self._places[key]
        if kind != _ARRAY:
            return _NAMES[kind], 0
        cursor = Cursor(self._file, offset)
        return _NAMES[cursor.scalar("<I")], cursor.scalar("<Q")


def _skip(cursor: Cursor, kind: int, key: str) -> None:
    if kind in _SCALARS:
        cursor.fits(1, struct.calcsize(_SCALARS[kind]), f"value of {key!r}")
        cursor.offset += struct.calcsize(_SCALARS[kind])
    elif kind == _STRING:
        length = cursor.count(1, f"bytes of {key!r}")
        cursor.offset += length
    elif kind == _ARRAY:
        item = cursor.scalar("<I")
        if item in _SCALARS:
            size = struct.calcsize(_SCALARS[item])
            count = cursor.count(size, f"items of {key!r}")
            cursor.offset += size * count
        elif item == _STRING:
            _skip_strings(cursor, cursor.count(8, f"strings of {key!r}"), key)
        else:
            raise cursor.error(f"items of type {item} in {key!r}, expected numbers or strings")
    else:
        raise cursor.error(f"value type {kind} of {key!r}, expected 0 to 12")


def _skip_strings(cursor: Cursor, count: int, key: str) -> None:
    """A vocabulary has some 100,000 strings; only their lengths are looked at."""
    buffer, offset, unpack = cursor.file.buffer, cursor.offset, _LENGTH.unpack_from
    last = cursor.file.size - 8
    for _ in range(count):
        if offset > last:
            raise cursor.error(f"strings of {key!r} that run past the end of the file")
        offset += 8 + unpack(buffer, offset)[0]
    cursor.fits(offset - cursor.offset, 1, f"bytes of {key!r}")
    cursor.offset = offset


def _decode(cursor: Cursor, kind: int) -> Any:
    if kind in _SCALARS:
        return cursor.scalar(_SCALARS[kind])
    if kind == _STRING:
        return cursor.string(cursor.file.size, "a string")
    item, count = cursor.scalar("<I"), cursor.scalar("<Q")
    if item in _SCALARS:
        dtype = np.dtype(_SCALARS[item])
        data = cursor.file.read(cursor.offset, count * dtype.itemsize)
        cursor.offset += len(data)
        return np.frombuffer(data, dtype)
    return [_decode(cursor, _STRING) for _ in range(count)]
