"""python -m tests.kernels.patterns [TYPE ...]: GB/s of every ReadPattern on one thread, and which one is chosen."""

import sys
import time
from pathlib import Path

from dllama_py.arena import zeroed
from dllama_py.kernels import read_patterns
from dllama_py.kernels.prefetch import STREAM
from dllama_py.kernels.read_patterns import AHEAD_BYTES, CANDIDATES, PIECE_BYTES, best_pattern, memory_bytes

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def main(readers: list[str]) -> None:
    memory = zeroed(memory_bytes(read_patterns._largest_cache_bytes(CACHES)))
    memory[:] = read_patterns.FILL
    print("reader       places", *(f"{ahead:>6}" for ahead in AHEAD_BYTES))
    for reader in readers:
        read_patterns._rates(reader, memory)  # compiles
        started = time.perf_counter()
        rates = read_patterns._rates(reader, memory)
        spent_ms = 1000 * (time.perf_counter() - started)
        for n_streams in sorted({pattern.n_streams for pattern in CANDIDATES}):
            tries = [rates[pattern] for pattern in CANDIDATES if pattern.n_streams == n_streams]
            print(f"{reader:12} {n_streams:6}", *(f"{PIECE_BYTES * sorted(t)[-3] / 1e9:6.1f}" for t in tries))
        ahead, n_streams = best_pattern(rates)
        print(f"  chosen in {spent_ms:.0f} ms: {n_streams} places, {ahead} bytes ahead")


if __name__ == "__main__":
    main(sys.argv[1:] or ["q40", "q80", "q4_k", STREAM])
