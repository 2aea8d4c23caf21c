"""How long a step takes on N nodes: computing, delays of messages, bytes on the wire. Floor 0: arithmetic on measured
facts; who measured them, and which ranks these are, is not known here.

A message of n bytes takes `latency_s + n / bytes_per_s`. Of a tree over N nodes the exchanges follow each other, one
distance (1, 2, 4, ... ranks apart) after the next; all pairs of a distance exchange at once, both ways at once.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dllama_py.blocks import FloatType
from dllama_py.config import ModelConfig

STEP_WORDS = 13  # 8 bytes each: a header of 8; a row's slot and position; what is wanted of it in three
EXCHANGES_PER_LAYER = 2
NEVER = sys.maxsize
LONG_FROM_VALUES = 8192  # 4 ranks on 1 Gbit/s links: 1024 values 0.16 against 0.32 ms, 16384 values 6.6 against 5.0 ms


@dataclass(frozen=True, slots=True)
class Link:
    """Between two nodes. `latency_s`: of an exchange of a few bytes; `bytes_per_s`: each way, both ways busy.

    `head_start_bytes`: of each message, pass at once where a token bucket shapes the link; a cable has no such thing.
    """

    latency_s: float
    bytes_per_s: float
    head_start_bytes: int = 0

    def wire_s(self, messages: "Messages") -> float:
        """The time that their bytes take."""
        return max(messages.n_bytes - messages.count * self.head_start_bytes, 0) / self.bytes_per_s


@dataclass(frozen=True, slots=True)
class Network:
    """`links[k]`: the slowest between ranks 2^k apart. Larger distances than were measured are like the last."""

    links: tuple[Link, ...]

    def link(self, k: int) -> Link:
        return self.links[min(k, len(self.links) - 1)]


@dataclass(frozen=True, slots=True)
class Messages:
    """What follows each other on one link: how many, and the bytes of all of them in one direction."""

    count: int
    n_bytes: int


Way = tuple[Messages, ...]  # of distances 1, 2, 4, ...


@dataclass(frozen=True, slots=True)
class Compute:
    """Seconds of a step on one node alone: what N nodes share evenly, and what each of them does whole."""

    shared_s: float
    whole_s: float

    def seconds(self, n_nodes: int) -> float:
        """Of the same step on one of N like nodes."""
        return self.shared_s / n_nodes + self.whole_s


@dataclass(frozen=True, slots=True)
class Forecast:
    """One step on `n_nodes` in the `exchange` format; a decoded token is a step of one row."""

    n_nodes: int
    exchange: str
    compute_s: float
    latency_s: float  # delays of all messages that follow each other
    wire_s: float  # their bytes

    @property
    def sync_s(self) -> float:
        """Between the nodes."""
        return self.latency_s + self.wire_s

    @property
    def seconds(self) -> float:
        return self.compute_s + self.sync_s


@dataclass(frozen=True, slots=True)
class Step:
    """`n_rows` to compute. `answer_bytes`: what each other node tells the root in the end."""

    n_rows: int = 1
    answer_bytes: int = 0


def doubling(n_bytes: int, n_nodes: int) -> Way:
    """Recursive doubling: the whole vector at every distance."""
    return tuple(Messages(1, n_bytes) for _ in range(_distances(n_nodes)))


def halving(n_bytes: int, n_nodes: int) -> Way:
    """Recursive halving, then doubling: half of the vector at distance 1, a quarter at 2, ..., and all of it back."""
    return tuple(Messages(2, 2 * (n_bytes >> k + 1)) for k in range(_distances(n_nodes)))


def all_reduce(n_values: int, n_bytes: int, n_nodes: int) -> Way:
    """Of a vector of so many values, which are so many bytes on the wire."""
    return halving(n_bytes, n_nodes) if n_values >= long_from_values(n_nodes) else doubling(n_bytes, n_nodes)


def long_from_values(n_nodes: int) -> int:
    """From where on halving and doubling is the faster sum. On two nodes both ways move the same bytes: never."""
    return LONG_FROM_VALUES if n_nodes > 2 else NEVER


def seconds(way: Way, network: Network) -> tuple[float, float]:
    """-> (delays, bytes on the wire), in seconds."""
    links = [network.link(k) for k in range(len(way))]
    return (
        sum(messages.count * link.latency_s for messages, link in zip(way, links, strict=True)),
        sum(link.wire_s(messages) for messages, link in zip(way, links, strict=True)),
    )


def step_ways(config: ModelConfig, step: Step, n_nodes: int, exchange: str) -> list[tuple[int, Way]]:
    """(how often, way) of all that travels in a step: the rows from the root, the sums, the answer to the root."""
    n_values = step.n_rows * config.width
    sums = all_reduce(n_values, FloatType.named(exchange).n_bytes(n_values), n_nodes)
    rows = doubling(8 * STEP_WORDS + 4 * n_values, n_nodes)
    told = tuple(Messages(1, step.answer_bytes << k) for k in range(_distances(n_nodes)))
    return [(EXCHANGES_PER_LAYER * config.n_layers, sums), (1, rows), *([(1, told)] if step.answer_bytes else [])]


def forecast(
    config: ModelConfig, step: Step, compute: Compute, network: Network, n_nodes: int, exchange: str
) -> Forecast:
    """One step on so many nodes like those that `compute` was measured on."""
    latency_s = wire_s = 0.0
    for times, way in step_ways(config, step, n_nodes, exchange):
        delays_s, bytes_s = seconds(way, network)
        latency_s += times * delays_s
        wire_s += times * bytes_s
    return Forecast(n_nodes, exchange, compute.seconds(n_nodes), latency_s, wire_s)


def forecasts(
    config: ModelConfig,
    compute: Compute,
    network: Network,
    node_counts: Iterable[int],
    exchanges: Sequence[str],
) -> list[Forecast]:
    """Of a decoded token in every setting; on one node nothing is exchanged, so it stands there once."""
    return [
        forecast(config, Step(), compute, network, n_nodes, exchange)
        for n_nodes in node_counts
        for exchange in (exchanges if n_nodes > 1 else exchanges[:1])
    ]


def _distances(n_nodes: int) -> int:
    """1, 2, 4, ... below N: how many."""
    return n_nodes.bit_length() - 1
