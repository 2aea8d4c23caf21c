"""python -m tests.kernels.fingerprint: as JSON the SHA-256 of a fixed set of kernel outputs, as this CPU computes them,
the bits of converted infinities and NaNs, what stages send each other, and the SHA-256 of products by type of weights.

Inputs come from integer arithmetic and products of single operations, so that every machine has the same ones.
"""

import hashlib
import json
from collections.abc import Sequence

import numpy as np

from dllama_py.activations import ActivationType
from dllama_py.float_types import Bytes, Floats, FloatType
from dllama_py.kernels import elementwise
from dllama_py.kernels.dot4 import DOT4
from dllama_py.kernels.elementary import KEEP_F32, ROUND_BF16, ROUND_Q80
from dllama_py.kernels.exchange import WIRE_BLOCK_BYTES, add_received, decode, encode
from dllama_py.kernels.team import Team
from tests.kernels import drive
from tests.kernels.conversions import narrowed, widened
from tests.kernels.hops import crc, decoded, encoded
from tests.kernels.paged import Heads, PagedCache, Sight, attend, prepare
from tests.kernels.samples import EXPONENTS_AT, is_whole_for, kinds_for, put_half

SCALES = np.array([0.01, -0.5, 3, 65504, 2.0**-24, 1000 * 2.0**-24, 2.0**-14, 0], np.float16)
ROWS = [(0, 62), (0, 63), (0, 64), (1, 3), (1, 70)]


def integers(seed: int, *shape: int) -> np.ndarray:
    """uint32 of any shape, by splitmix64."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed << 32) + np.arange(1, np.prod(shape) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z >> np.uint64(32)).astype(np.uint32).reshape(shape)


def floats(seed: int, *shape: int) -> Floats:
    """float32 in [-1, 1)."""
    return integers(seed, *shape).view(np.int32).astype(np.float32) * np.float32(2.0**-31)


def weights(kind: FloatType, rows: int, columns: int) -> Bytes:
    if kind is FloatType.F32:
        return floats(1, rows, columns).view(np.uint8)
    if kind is FloatType.F16:  # subnormal ones too
        exponents = -(integers(2, rows, columns) % 20).astype(np.int32)
        return np.ldexp(floats(1, rows, columns), exponents).astype(np.float16).view(np.uint8)
    if kind is FloatType.BF16:
        return (floats(1, rows, columns).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    n_blocks = columns // kind.block_elements
    blocks = (integers(3, rows, n_blocks, kind.block_bytes) >> 8).astype(np.uint8)
    halves = SCALES[integers(4, rows, n_blocks) % SCALES.size][..., None].view(np.uint8)
    for at in EXPONENTS_AT.get(kind, [1]):
        put_half(kind, blocks, at, halves)
    return blocks.reshape(rows, -1)


def activations() -> Floats:
    """float32 [6, 256]."""
    return np.ldexp(floats(5, 6, 256), (integers(6, 6, 256) % 30).astype(np.int32))


def products(team: Team, kinds: Sequence[FloatType]) -> dict[str, str]:
    """By weights type: the beginning of the SHA-256 of its products."""
    found = {}
    for kind in kinds:
        data, x = weights(kind, 24, 256), activations()
        of_heights = [drive.matmul(team, kind, data, x[:n_rows], [0, 3, 8]) for n_rows in (1, 4, 6)]  # of a tile
        assert all(np.isfinite(out).all() for out in of_heights)
        found[kind.label] = digest(of_heights)[:12]
    return found


def outputs(team: Team) -> list[np.ndarray]:
    """Of all other kernels."""
    x = activations()
    experts = weights(FloatType.Q40, 72, 256).reshape(3, 24, -1)
    routes = [[(0, 0.25), (2, 0.75)], [(1, 0.5), (2, 0.5)], [(0, 0.125), (1, 0.875)]]
    found = [*drive.mixture(team, FloatType.Q40, experts, x[:3], routes)]
    found += drive.norm(team, x, range(6), floats(7, 256), 1e-5)
    for kernel in (elementwise.gated_hidden, elementwise.gelu_hidden, elementwise.clamped_hidden):
        found += drive.gated_hidden(team, 90 * floats(8, 6, 256), 9 * floats(9, 6, 256), kernel)
    found.append(drive.add_normed(team, x, floats(20, 6, 256), floats(7, 256), 1e-6))
    sums = [drive.tree_sum(team, x.reshape(2, 3, 256), rounding) for rounding in (KEEP_F32, ROUND_BF16, ROUND_Q80)]
    found += [*sums, *exchanged(team, sums[1], ROUND_BF16), *exchanged(team, sums[2], ROUND_Q80)]
    cache = PagedCache.empty([[0, 2], [1, 3]], 2, 32, half=True)
    for slot in range(2):
        cache.fill(slot, floats(10 + slot, 72, 2, 32), floats(12 + slot, 72, 2, 32))
    heads = Heads(floats(14, 5, 6, 32), floats(15, 5, 2, 32), 1e5 * floats(16, 5, 2, 32), floats(17, 32), None)
    turns = (floats(18, 72, 16), floats(19, 72, 16))
    found.append(prepare(team, cache, heads, ROWS, turns, adjacent=True))
    q = prepare(team, cache, heads, ROWS, turns, adjacent=False)
    return [
        *found,
        q,
        np.nan_to_num(cache.keys_by_element),
        np.nan_to_num(cache.values),
        attend(team, cache, q, ROWS, [0, 3, 6]),
        attend(team, cache, q, ROWS, [0, 3, 6], Sight(40, sinks=floats(21, 6))),
    ]


def exchanged(team: Team, values: Floats, rounding: int) -> list[np.ndarray]:
    """Values rounded to an exchange format: on the wire, received, and added to themselves in reverse."""
    wire = np.zeros(values.size // 32 * WIRE_BLOCK_BYTES[rounding], np.uint8)
    back, total = drive.untouched(values.size), values.reshape(-1)[::-1].copy()
    for kernel, floats in ((encode, values), (decode, back), (add_received, total)):
        blocks = {"n_rows": drive.words(1), "n_blocks": values.size // 32, "level": 0, "path": 0}
        drive.run(team, kernel(**blocks, values=floats, wire=wire, rounding=rounding))
    return [wire, back, total]


def hops(team: Team) -> str:
    """Digest of activations in messages and as they come out again; CRC-32C of bytes."""
    x = np.ldexp(floats(20, 3, 96), (integers(21, 3, 96) % 9).astype(np.int32))
    rows = {kind: encoded(team, kind, x) for kind in ActivationType}
    back = [decoded(team, kind, rows[kind], 96) for kind in rows]
    return f"{digest([*rows.values(), *back])} {crc(team, integers(22, 1000).view(np.uint8)[:3333]):08x}"


def specials(team: Team) -> str:
    """Bits of infinities and of what is not a number as halves and bfloats, and of such halves as float32."""
    x = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF, 0x7F800000, 0xFF800000] + [0] * 10, np.uint32)
    halves, bfloats, *_ = narrowed(team, x.view(np.float32))
    special_halves = np.array([0x7E00, 0xFE00, 0x7C01, 0xFFFF, 0x7C00, 0xFC00] + [0] * 10, np.uint16)
    floats_of_halves, _ = widened(team, special_halves)
    return " ".join(f"{bits:x}" for array in (halves, bfloats, floats_of_halves.view(np.uint32)) for bits in array[:6])


def digest(arrays: list[np.ndarray]) -> str:
    """SHA-256 of all arrays, one after the other."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array))
    return found.hexdigest()


def facts(team: Team, way: str) -> dict[str, object]:
    """What is tested on CPUs that multiply in this way (samples.py)."""
    found = {"specials": specials(team), "hops": hops(team), "products": products(team, kinds_for(way))}
    if is_whole_for(way):
        of_all = outputs(team)
        assert all(np.isfinite(output).all() for output in of_all)
        found["outputs"] = digest(of_all)
    return found


if __name__ == "__main__":
    print(json.dumps({"way": DOT4.name} | facts(Team(1), DOT4.name)))
