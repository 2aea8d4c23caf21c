"""What both ends of a hop know: the 64 bytes in front of every message (docs/wire.md), and how long one may be."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dllama_py.activations import ActivationType

MAGIC = b"DLHP"
VERSION = 1
HEADER_BYTES = 64
CHECKED_BYTES = 60  # of the header, by the checksum at its end

Checksum = Callable[[int, int], int]  # (address, bytes) -> CRC-32C of memory

_START, _REST, _END = struct.Struct("<4sH"), struct.Struct("<HQIIIIQQI8x"), struct.Struct("<I")


class DamagedMessage(Exception):
    """What is wrong with a message; whoever took it adds whose it was."""


@dataclass(frozen=True, slots=True)
class HopHeader:
    """What the sender says of a message. `sent_ns`: when it left, by the sender's clock."""

    kind: int
    step: int
    n_rows: int
    width: int
    encoding: int
    words_bytes: int
    activations_bytes: int
    sent_ns: int
    payload_crc: int

    @property
    def payload_bytes(self) -> int:
        return self.words_bytes + self.activations_bytes

    def _fields(self) -> tuple[int, ...]:
        rows = self.kind, self.step, self.n_rows, self.width, self.encoding
        return *rows, self.words_bytes, self.activations_bytes, self.sent_ns, self.payload_crc

    def write(self, message: memoryview, address: int, checksum: Checksum) -> None:
        """Into the front of a message, which lies at that address."""
        _START.pack_into(message, 0, MAGIC, VERSION)
        _REST.pack_into(message, _START.size, *self._fields())
        _END.pack_into(message, CHECKED_BYTES, checksum(address, CHECKED_BYTES))


@dataclass(frozen=True, slots=True)
class HopFormat:
    """What both ends know: how rows are encoded, how wide they are, and how much a message may hold."""

    encoding: ActivationType
    width: int
    max_rows: int
    max_words: int

    @property
    def row_bytes(self) -> int:
        return self.encoding.row_bytes(self.width)

    @property
    def max_bytes(self) -> int:
        """Of a message."""
        return HEADER_BYTES + 8 * self.max_words + self.max_rows * self.row_bytes

    def check(self, header: HopHeader) -> None:
        """DamagedMessage if rows are of another kind, or lengths are not those of rows and words."""
        found, expected = (header.width, header.encoding), (self.width, self.encoding.number)
        if found != expected:
            raise DamagedMessage(f"its width and encoding are {found}, expected {expected}")
        if header.activations_bytes != header.n_rows * self.row_bytes:
            raise DamagedMessage(
                f"it has {header.n_rows} rows in {header.activations_bytes} bytes, expected {self.row_bytes} a row"
            )
        if header.words_bytes % 8:
            raise DamagedMessage(f"it has {header.words_bytes} bytes of words, expected 8 each")


def read_header(message: memoryview, address: int, n_bytes: int, checksum: Checksum) -> HopHeader:
    """Of a message of so many bytes, whose payload is checked too. DamagedMessage says what is wrong with it."""
    if n_bytes < HEADER_BYTES:
        raise DamagedMessage(f"it has {n_bytes} bytes, expected a header of {HEADER_BYTES} at least")
    magic, version = _START.unpack_from(message, 0)
    if magic != MAGIC:
        raise DamagedMessage(f"it begins with {magic!r}, expected {MAGIC!r}")
    if version != VERSION:
        raise DamagedMessage(f"it is of version {version}, expected {VERSION}")
    _check_crc("header", _END.unpack_from(message, CHECKED_BYTES)[0], checksum(address, CHECKED_BYTES))
    header = HopHeader(*_REST.unpack_from(message, _START.size))
    if HEADER_BYTES + header.payload_bytes != n_bytes:
        raise DamagedMessage(
            f"it has {n_bytes} bytes, expected {HEADER_BYTES} + {header.words_bytes} + {header.activations_bytes}"
        )
    _check_crc("payload", header.payload_crc, checksum(address + HEADER_BYTES, header.payload_bytes))
    return header


def _check_crc(part: str, told: Any, found: int) -> None:
    if told != found:
        raise DamagedMessage(f"its {part} has the CRC {found:08x}, expected {told:08x}")
