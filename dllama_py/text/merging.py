"""Neighbouring tokens merged to longer ones, the highest score first and of equal scores the leftmost.

The rule of SentencePiece's BPE and of distributed-llama, with a heap: time grows as n log n. Knows bytes only.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush


def merge_by_score(symbols: Sequence[bytes], scores: Mapping[bytes, float]) -> list[bytes]:
    """The symbols after every merge that yields a token of `scores`."""
    return _Chain(symbols, scores).merged()


class _Chain:
    """Symbols linked to their neighbours, and the pairs that may merge."""

    def __init__(self, symbols: Sequence[bytes], scores: Mapping[bytes, float]) -> None:
        self._symbols = list(symbols)
        self._scores = scores
        n = len(symbols)
        self._before = list(range(-1, n - 1))
        self._after = [*range(1, n), -1]
        self._heap: list[tuple[float, int, int, int]] = []  # minus score, left, right, bytes of both

    def merged(self) -> list[bytes]:
        self._heap = [pair for left in range(len(self._symbols) - 1) if (pair := self._pair(left, left + 1))]
        heapify(self._heap)
        symbols = self._symbols
        while self._heap:
            _, left, right, n_bytes = heappop(self._heap)
            if symbols[left] and symbols[right] and len(symbols[left]) + len(symbols[right]) == n_bytes:
                self._join(left, right)
        return [symbol for symbol in symbols if symbol]

    def _join(self, left: int, right: int) -> None:
        self._symbols[left] += self._symbols[right]
        self._symbols[right] = b""
        after = self._after[left] = self._after[right]
        if after >= 0:
            self._before[after] = left
        for pair in (self._pair(self._before[left], left), self._pair(left, after)):
            if pair:
                heappush(self._heap, pair)

    def _pair(self, left: int, right: int) -> tuple[float, int, int, int] | None:
        if left < 0 or right < 0:
            return None
        joined = self._symbols[left] + self._symbols[right]
        score = self._scores.get(joined)
        return None if score is None else (-score, left, right, len(joined))
