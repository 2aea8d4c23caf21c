# python -m pytest tests/kernels/test_activations.py
"""Rows of activations in messages, against their definition in numpy."""

import numpy as np
import pytest

from dllama_py.activations import ActivationType
from dllama_py.float_types import Bytes, Floats
from dllama_py.kernels.team import Team
from tests.kernels.hops import decoded, encoded
from tests.kernels.samples import random

KINDS = list(ActivationType)
F32, BF16, INT8, INT8_ROW = KINDS
NAN, INF = np.float32(np.nan), np.float32(np.inf)


def codes(x: Floats, scale: Floats) -> Bytes:
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale > 0)
    return np.rint(x * inverse).astype(np.int8).view(np.uint8)


def definition(kind: ActivationType, x: Floats) -> Bytes:
    """uint8 [T, row_bytes] of rows of finite values whose scales are ordinary numbers."""
    if kind is F32:
        return x.view(np.uint8)
    if kind is BF16:
        bits = x.view(np.uint32)
        return (bits + np.uint32(0x7FFF) + (bits >> 16 & 1) >> 16).astype(np.uint16).view(np.uint8)
    pieces = x.reshape(-1, 32) if kind is INT8 else x
    scale = np.abs(pieces).max(axis=1, keepdims=True) / np.float32(127)
    stored = scale.astype(np.float16) if kind is INT8 else scale
    return np.concatenate([stored.view(np.uint8), codes(pieces, scale)], axis=1).reshape(len(x), -1)


@pytest.mark.parametrize("n_rows", [1, 2, 5])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.label)
def test_same_bytes_as_the_definition(team: Team, kind: ActivationType, n_rows: int) -> None:
    x = random(n_rows, 96) * np.float32([[1], [1e-3], [300], [1], [7]][:n_rows])
    x[0, 32:64] = 0
    assert encoded(team, kind, x).tobytes() == definition(kind, x).tobytes()


@pytest.mark.parametrize("n_rows", [1, 5])
def test_what_comes_out_again(team: Team, n_rows: int) -> None:
    x = random(n_rows, 96)
    back = {kind: decoded(team, kind, encoded(team, kind, x), 96) for kind in KINDS}
    assert back[F32].tobytes() == x.tobytes()
    assert (
        back[BF16].view(np.uint32).tolist() == ((definition(BF16, x).view(np.uint16).astype(np.uint32)) << 16).tolist()
    )
    blocks = definition(INT8, x).reshape(-1, 34)
    halves = np.ascontiguousarray(blocks[:, :2]).view(np.float16).astype(np.float32)
    assert back[INT8].reshape(-1, 32).tobytes() == (halves * blocks[:, 2:].view(np.int8)).tobytes()
    rows = definition(INT8_ROW, x)
    scales = np.ascontiguousarray(rows[:, :4]).view(np.float32)
    assert back[INT8_ROW].tobytes() == (scales * rows[:, 4:].view(np.int8)).tobytes()


def test_f32_keeps_every_bit(team: Team) -> None:
    x = np.array([0x7F800001, 0xFFC12345, 0x80000000, 1, 0x7F800000, 0xFF800000] * 16, np.uint32).view(np.float32)
    x = x.reshape(1, 96)
    wire = encoded(team, F32, x)
    assert wire.tobytes() == x.tobytes()
    assert decoded(team, F32, wire, 96).tobytes() == x.tobytes()


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_what_is_not_finite_never_becomes_an_ordinary_number(team: Team, bad: np.float32) -> None:
    x = random(2, 96)
    x[1, 40] = bad
    back = {kind: decoded(team, kind, encoded(team, kind, x), 96) for kind in KINDS}
    for kind in KINDS:
        assert np.isfinite(back[kind][0]).all()
    for kind in (F32, BF16):
        assert np.array_equal(back[kind][1, 40], bad, equal_nan=True)
        assert np.isfinite(np.delete(back[kind][1], 40)).all()
    assert np.flatnonzero(np.isnan(back[INT8][1])).tolist() == list(range(32, 64))
    assert np.isnan(back[INT8_ROW][1]).all()


def test_numbers_beyond_and_below(team: Team) -> None:
    """bf16 rounds to infinity at its end; a scale beyond half becomes 65504; scales below 2^-126 are 0."""
    x = np.zeros((1, 64), np.float32)
    x[0, 0], x[0, 32] = 3.4e38, 1e-45
    back = {kind: decoded(team, kind, encoded(team, kind, x), 64)[0] for kind in KINDS}
    assert back[BF16][[0, 32]].tolist() == [np.inf, 0]
    assert back[INT8][[0, 32]].tolist() == [65504.0 * 127, 0]
    assert back[INT8_ROW][[0, 32]].tolist() == [np.float32(3.4e38) / np.float32(127) * np.float32(127), 0]


def test_row_sizes() -> None:
    assert [kind.row_bytes(1024) for kind in KINDS] == [4096, 2048, 1088, 1028]
    with pytest.raises(ValueError, match="100 values are not whole blocks of 32"):
        F32.row_bytes(100)


def test_names() -> None:
    assert [ActivationType.named(label) for label in ("f32", "bf16", "int8", "int8-row")] == KINDS
    with pytest.raises(ValueError, match="no encoding of activations 'q80'; known: f32, bf16, int8, int8-row"):
        ActivationType.named("q80")
