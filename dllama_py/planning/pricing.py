"""What every range of layers would cost every stage: time of a token and of a chunk, and whether it has the memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dllama_py.blocks import FloatType
from dllama_py.config import ModelConfig
from dllama_py.cost_model import EXCHANGES_PER_LAYER, Network, all_reduce, doubling, seconds
from dllama_py.model.memory import StepSize
from dllama_py.planning.alike import evened
from dllama_py.planning.paths import Flags, Seconds, StageTimes
from dllama_py.planning.pipe import Slowdown
from dllama_py.planning.sizes import RankSizes, rank_sizes
from dllama_py.planning.speeds import layer_s, part_s
from dllama_py.planning.wishes import Links, Node, Wishes, free_bytes
from dllama_py.sharding.kinds import Kinds
from dllama_py.sharding.plan import make_plan
from dllama_py.transport.link import slowest

HEADER_BYTES = 64  # of the message of a hop
ANSWER_BYTES = 2048  # what the last stage tells the root of a token, about


@dataclass(frozen=True, slots=True)
class Case:
    """One model for some ranks, `wishes.width` a stage: all that prices follow from."""

    wishes: Wishes
    config: ModelConfig
    sizes: tuple[RankSizes, ...]  # of each rank of a stage, were it to hold all layers
    nodes: tuple[Node, ...]
    links: Links

    @property
    def n_stages(self) -> int:
        return len(self.nodes) // self.wishes.width

    @property
    def root_s(self) -> float:
        """What the root does for a token beside being a stage: sampling, embedding; about as much as a step is."""
        return self.nodes[0].speed.step_s

    def ranks(self, stage: int) -> range:
        return range(stage * self.wishes.width, (stage + 1) * self.wishes.width)

    def step_s(self, stage: int, n_rows: int) -> Seconds:
        """float64 [L + 1, L + 1]: a step of so many rows with layers [first, behind the last), without the head, while
        no other stage of the host is at work."""
        ranks = list(zip(self.sizes, self.ranks(stage), strict=True))
        layers = [
            max(layer_s(sizes, layer, self.nodes[rank].speed, n_rows) for sizes, rank in ranks)
            for layer in range(self.config.n_layers)
        ]
        return _between(np.array(layers) + self._sums_s(stage, n_rows)) + max(
            self.nodes[rank].speed.step_s for _, rank in ranks
        )

    def head_s(self, stage: int, n_rows: int = 1) -> float:
        """The logits of so many rows."""
        ranks = zip(self.sizes, self.ranks(stage), strict=True)
        return max(part_s(sizes.head, self.nodes[rank].speed, n_rows) for sizes, rank in ranks)

    def needs_bytes(self, rank: int) -> Seconds:
        """float64 [L + 1, L + 1]: memory of a rank with layers [first, behind the last)."""
        sizes = self.sizes[rank % self.wishes.width]
        needs = _between(np.array([layer.weights_bytes + sizes.layer_cache_bytes for layer in sizes.layers], float))
        needs[:, -1] += sizes.head_bytes
        return needs + sizes.fixed_bytes + (0 if rank else sizes.root_bytes)

    def hop_s(self, sender: int, receiver: int, n_rows: int) -> float:
        """From the leader of one stage to that of another, and on to the other ranks there, with the Python of both
        ends, which is about as much as that of a step each. Who waits for a single row sleeps."""
        n_bytes = HEADER_BYTES + n_rows * self.wishes.row_bytes
        link = self.links[self.ranks(sender).start][self.ranks(receiver).start]
        on_s = sum(seconds(doubling(n_bytes, self.wishes.width), self._network(receiver)))
        wake_s = self._wake_s(receiver) if n_rows == 1 else 0.0
        return link.latency_s + n_bytes / link.bytes_per_s + on_s + self._ends_s(sender, receiver) + wake_s

    def answer_s(self, stage: int) -> float:
        """From the leader of the last stage to the root."""
        if not stage:
            return 0.0
        link = self.links[self.ranks(stage).start][0]
        return link.latency_s + ANSWER_BYTES / link.bytes_per_s + self._ends_s(stage, 0) + self._wake_s(0)

    def times(self) -> StageTimes:
        """All of it, with no time where the memory is too little."""
        n = self.n_stages
        hops = np.array([[self.hop_s(i, j, 1) if i < j else 0.0 for j in range(n)] for i in range(n)])
        fits = np.stack([self._fits(stage) for stage in range(n)])
        decode = np.stack([self.step_s(stage, 1) for stage in range(n)])
        decode[:, :, -1] += np.array([self.head_s(stage) for stage in range(n)])[:, None]
        slower = self.slowdown(range(n))(np.arange(n))
        prefill = np.stack([self.step_s(stage, self.wishes.chunk_rows) * slower[stage] for stage in range(n)])
        answers = np.array([self.answer_s(stage) + self.root_s for stage in range(n)])
        return StageTimes(np.where(fits, decode, np.inf), np.where(fits, prefill, np.inf), hops, hops[0], answers)

    def slowdown(self, stages: Sequence[int]) -> Slowdown:
        """Of these stages while some of them, counted among these, are at work.

        It is measured how many times as long a rank takes while all stages of its host are at work; while half of them
        are, half as many times, until there are cores enough for all.
        """
        crowd = np.zeros((self.n_stages, len(self.nodes)))  # on each host, which goes by its first rank's number
        hosts = [node.facts.host for node in self.nodes]
        for rank, node in enumerate(self.nodes):
            place = rank // self.wishes.width, hosts.index(node.facts.host)
            crowd[place] = max(crowd[place], node.speed.crowd)
        is_on = crowd > 0
        of_each = (crowd / np.maximum(is_on.sum(axis=0), 1))[list(stages)]
        is_on = is_on[list(stages)]

        def slower(active: NDArray[np.intp]) -> Seconds:
            times: Seconds = np.maximum(of_each[active] * is_on[active].sum(axis=0), 1.0).max(axis=1, initial=1.0)
            return times

        return slower

    def _ends_s(self, sender: int, receiver: int) -> float:
        return sum(self.nodes[self.ranks(stage).start].speed.step_s for stage in (sender, receiver))

    def _wake_s(self, stage: int) -> float:
        return max(self.nodes[rank].speed.wake_s for rank in self.ranks(stage))

    def _fits(self, stage: int) -> Flags:
        fits = np.triu(np.ones((self.config.n_layers + 1,) * 2, bool), 1)
        for rank in self.ranks(stage):
            fits &= self.needs_bytes(rank) <= free_bytes(self.nodes, rank)
        return fits

    def _sums_s(self, stage: int, n_rows: int) -> float:
        """What the ranks of a stage need to add their sums, a layer."""
        n_values = n_rows * self.config.width
        n_bytes = FloatType.named(self.wishes.exchange).n_bytes(n_values)
        way = all_reduce(n_values, n_bytes, self.wishes.width)
        return EXCHANGES_PER_LAYER * sum(seconds(way, self._network(stage)))

    def _network(self, stage: int) -> Network:
        first, width = self.ranks(stage).start, self.wishes.width
        distances = [1 << k for k in range(width.bit_length() - 1)]
        return slowest([[self.links[first + i][first + (i ^ apart)] for i in range(width)] for apart in distances])


def make_case(wishes: Wishes, config: ModelConfig, kinds: Kinds, nodes: Sequence[Node], links: Links) -> Case:
    """UsageError where the ranks of a stage cannot share its layers."""
    step = StepSize(
        wishes.chunk_rows, max(node.facts.n_threads for node in nodes), wishes.n_slots, len(nodes) // wishes.width
    )
    sizes = tuple(
        rank_sizes(config, kinds, shard, wishes.context, wishes.half_cache, step)
        for shard in make_plan(config, wishes.width, wishes.replicate_kv)
    )
    return Case(wishes, config, sizes, evened(nodes, sizes[0]), links)


def _between(layers: Seconds) -> Seconds:
    """Sums of [first, behind the last) of a value a layer."""
    sums = np.concatenate([[0.0], np.cumsum(layers)])
    between: Seconds = sums[None, :] - sums[:, None]
    return between
