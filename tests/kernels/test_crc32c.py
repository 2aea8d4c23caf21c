# python -m pytest tests/kernels/test_crc32c.py
import numpy as np
import pytest

from dllama_py.kernels.crc32c import RUN_BYTES, crc32c
from tests.kernels.fingerprint import integers
from tests.support.crc import bit_by_bit

BYTES = integers(30, 2000).view(np.uint8)  # [8000]


def crc_of(part: np.ndarray) -> int:
    return int(crc32c(part.ctypes.data, part.size))


@pytest.mark.parametrize(
    ("data", "crc"),
    [  # the first by everybody's custom, the others from RFC 3720, B.4
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (b"", 0),
    ],
)
def test_known_values(data: bytes, crc: int) -> None:
    assert crc_of(np.frombuffer(data, np.uint8)) == crc


@pytest.mark.parametrize("n_bytes", [1, 7, 8, 9, 64, 3 * RUN_BYTES - 1, 3 * RUN_BYTES, 6 * RUN_BYTES + 13])
@pytest.mark.parametrize("start", [0, 1, 5])
def test_any_length_at_any_address_is_as_bit_by_bit(n_bytes: int, start: int) -> None:
    part = BYTES[start : start + n_bytes]
    assert crc_of(part) == bit_by_bit(part.tobytes())


def test_every_changed_bit_shows() -> None:
    part = BYTES[:1600].copy()
    found = {crc_of(part)}
    for bit in range(0, 8 * part.size, 37):
        part[bit // 8] ^= 1 << bit % 8
        found.add(crc_of(part))
        part[bit // 8] ^= 1 << bit % 8
    assert len(found) == 1 + len(range(0, 8 * part.size, 37))
