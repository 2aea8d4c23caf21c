"""GB/s of hashes over pieces of 16 MiB: python -m tests.support.hash_speed. blake3 is left out where it is missing."""

import hashlib
import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import xxhash

N_BYTES, PIECE_BYTES, TRIES = 256 << 20, 16 << 20, 3


def rate_gb_s(data: Any, hash_of: Callable[[Any], object]) -> float:
    """The best of some passes over all the data."""
    best_s = float("inf")
    for _ in range(TRIES):
        started = time.perf_counter()
        for start in range(0, data.size, PIECE_BYTES):
            hash_of(data[start : start + PIECE_BYTES])
        best_s = min(best_s, time.perf_counter() - started)
    return float(data.size / best_s / 1e9)


def main() -> None:
    data = np.random.default_rng(0).integers(0, 256, N_BYTES, dtype=np.uint8)
    hashes: dict[str, Callable[[Any], object]] = {
        "reading": lambda piece: piece.view(np.uint64).max(),
        "xxh3_128": xxhash.xxh3_128_digest,
        "sha256": lambda piece: hashlib.sha256(piece).digest(),
    }
    try:
        blake3 = importlib.import_module("blake3").blake3
    except ImportError:
        print("blake3: pip install blake3 to compare")
    else:
        hashes["blake3"] = lambda piece: blake3(piece).digest()
        hashes["blake3, 2 threads"] = lambda piece: blake3(piece, max_threads=2).digest()
    for name, hash_of in hashes.items():
        print(f"{name}: {rate_gb_s(data, hash_of):.1f} GB/s")


if __name__ == "__main__":
    main()
