"""One sentence on what to change, from measured times and the model of a token's time.

Whether the cluster pays is asked against its best single machine with all its threads. What another exchange would
bring is the measured time of messages, scaled as the model of a token's time says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from dllama_py.config import ModelConfig
from dllama_py.cost_model import Compute, Forecast, Network, Step, forecast
from dllama_py.settings import EXCHANGES
from dllama_py.transport.hosts import Host

WORTH_IT = 0.20  # more speed than the best single machine; below it is not worth the trouble
BETTER = 0.05  # less is noise
HOLDS_BACK = 0.05  # of a token that the others wait for one node
OFTEN = 0.6  # of all all-reduces in which one node is the last
UNEXPLAINED = 3  # times what the link needs
LINK_MATTERS = 0.10  # of a token in messages


@dataclass(frozen=True, slots=True)
class Node:
    """Of a decoded token, on average. `shared_s`: products and attention, which more nodes share; `whole_s`: all other
    computing and what lies between programs; `share`: of the model's weights, 0 to 1.
    """

    host: Host
    shared_s: float
    whole_s: float
    wait_s: float
    transfer_s: float
    share: float
    times_last: int
    lead_s: float  # that the others could have gone on sooner but for this node

    @property
    def alone_s(self) -> float:
        """Of what is shared, if it did all of it."""
        return self.shared_s / self.share


@dataclass(frozen=True, slots=True)
class Measured:
    """A cluster that decodes. `token_s`: from token to token; `network`: None on one node."""

    config: ModelConfig
    exchange: str
    token_s: float
    nodes: tuple[Node, ...]
    n_collectives: int  # a token
    network: Network | None
    one_node_s: float | None = None  # a token on one node, if that was measured


@dataclass(frozen=True, slots=True)
class Advice:
    """`limit`: what takes most of the time that is lost between nodes: latency, rate, waiting, or computing if little
    is lost. `single_s`: of a token on the best single machine; `better`: a faster setting, `better_s` its token.
    """

    sentence: str
    limit: str
    slow_rank: int | None
    single_s: float
    gain: float
    worth_it: bool
    better: Forecast | None
    better_s: float | None


def advise(measured: Measured) -> Advice:
    """What holds this cluster back, what would be faster, and whether it is worth it."""
    single_s = measured.one_node_s or single_machine_s(measured.nodes)
    gain = single_s / measured.token_s - 1
    slow, (limit, on_limit) = slow_rank(measured), _limit(measured)
    better, better_s = _better(measured, single_s)
    sentences = [
        *([_on_slow(measured, slow)] if slow is not None else []),
        on_limit,
        *([_on_better(measured, better, better_s)] if better is not None else []),
        *([_on_worth(measured, single_s, gain)] if len(measured.nodes) > 1 else []),
    ]
    sentence = "; ".join(sentences)
    worth_it = len(measured.nodes) > 1 and gain >= WORTH_IT
    sentence = f"{sentence[0].upper()}{sentence[1:]}."
    return Advice(sentence, limit, slow, single_s, gain, worth_it, better, better_s if better else None)


def single_machine_s(nodes: Sequence[Node]) -> float:
    """A token on the best machine alone: ranks of one host join their speeds in it."""
    hosts = {node.host: [other for other in nodes if other.host == node.host] for node in nodes}
    return min(
        1 / sum(1 / node.alone_s for node in ranks) + min(node.whole_s for node in ranks) for ranks in hosts.values()
    )


def slow_rank(measured: Measured) -> int | None:
    """The rank that holds the others back, if one does."""
    if len(measured.nodes) == 1:
        return None
    rank = max(range(len(measured.nodes)), key=lambda number: measured.nodes[number].lead_s)
    node = measured.nodes[rank]
    is_often_last = node.times_last >= OFTEN * measured.n_collectives
    return rank if is_often_last and node.lead_s >= HOLDS_BACK * measured.token_s else None


def compute_of(nodes: Sequence[Node]) -> Compute:
    """Of an average node alone."""
    return Compute(
        sum(node.alone_s for node in nodes) / len(nodes),
        sum(node.whole_s for node in nodes) / len(nodes),
    )


def setting(measured: Measured, network: Network, n_nodes: int, exchange: str) -> Forecast:
    """A token's forecast in another setting of the same machines."""
    return forecast(measured.config, Step(), compute_of(measured.nodes), network, n_nodes, exchange)


def settings(measured: Measured) -> list[Forecast]:
    """Forecasts of this many nodes and of fewer, in every exchange; of one node once. Nothing without a network."""
    if measured.network is None:
        return []
    counts = [1 << power for power in range(len(measured.nodes).bit_length())]
    return [
        setting(measured, measured.network, n_nodes, exchange)
        for n_nodes in counts
        for exchange in (EXCHANGES if n_nodes > 1 else (measured.exchange,))
    ]


def _better(measured: Measured, single_s: float) -> tuple[Forecast | None, float]:
    """The fastest other setting with what its token would take, if it is clearly faster than the present one."""
    here = len(measured.nodes), measured.exchange
    found = {(each.n_nodes, each.exchange): each for each in settings(measured)}
    if here not in found or len({node.host for node in measured.nodes}) == 1:
        return None, measured.token_s
    expected = {key: _expected_s(measured, found[here], each, single_s) for key, each in found.items() if key != here}
    key = min(expected, key=expected.__getitem__)
    is_better = measured.token_s / expected[key] - 1 >= BETTER
    return (found[key], expected[key]) if is_better else (None, measured.token_s)


def _expected_s(measured: Measured, now: Forecast, other: Forecast, single_s: float) -> float:
    """A token in another setting: with as many nodes only the messages change, fewer still wait for each other."""
    if other.n_nodes == 1:
        return single_s
    if other.n_nodes == now.n_nodes:
        transfer_s = fmean(node.transfer_s for node in measured.nodes)
        return measured.token_s - transfer_s * (1 - other.sync_s / now.sync_s)
    return other.seconds + fmean(node.wait_s for node in measured.nodes)


def _limit(measured: Measured) -> tuple[str, str]:
    n, token_s = len(measured.nodes), measured.token_s
    if measured.network is None:
        return "computing", f"one node computes {in_ms(token_s)} a token; nothing is exchanged"
    wait_s = fmean(node.wait_s for node in measured.nodes)
    transfer_s = fmean(node.transfer_s for node in measured.nodes)
    if wait_s + transfer_s < LINK_MATTERS * token_s:
        lost = f"{in_ms(wait_s + transfer_s)} of {in_ms(token_s)}"
        return "computing", f"computing is the limit: messages and waits between {n} nodes take {lost} a token"
    if wait_s > transfer_s:
        lost = f"{in_ms(wait_s)} of {in_ms(token_s)} a token, the messages themselves {in_ms(transfer_s)}"
        return "waiting", f"waiting for each other is the limit: {lost}"
    now = setting(measured, measured.network, n, measured.exchange)
    if transfer_s > UNEXPLAINED * now.sync_s:
        lost = f"{in_ms(transfer_s)} of {in_ms(token_s)} a token, where the link needs {in_ms(now.sync_s)}"
        return "waiting", f"messages come late to busy processors: {lost}; end other programs, use fewer threads"
    parts = (
        f"{in_ms(transfer_s)} of {in_ms(token_s)} a token are messages, by the link's own figures "
        f"{in_ms(now.latency_s)} of delay and {in_ms(now.wire_s)} of bytes"
    )
    if now.latency_s >= now.wire_s:
        return (
            "latency",
            f"the link's latency ({measured.network.links[0].latency_s * 1e6:.0f} us) is the limit: {parts}",
        )
    rate = measured.network.links[0].bytes_per_s / 1e6
    return "rate", f"the link's rate ({rate:.0f} MB/s) is the limit: {parts}"


def _on_slow(measured: Measured, rank: int) -> str:
    node = measured.nodes[rank]
    return (
        f"rank {rank} on {node.host} holds the others back: last in {node.times_last} of {measured.n_collectives} "
        f"all-reduces, they wait {in_ms(node.lead_s)} of a {in_ms(measured.token_s)} token for it"
    )


def _on_better(measured: Measured, better: Forecast, better_s: float) -> str:
    how = []
    if better.n_nodes != len(measured.nodes):
        how.append(f"{better.n_nodes} node{'s' * (better.n_nodes > 1)}")
    if better.n_nodes > 1 and better.exchange != measured.exchange:
        how.append(f"--buffer-float-type {better.exchange}")
    gain = measured.token_s / better_s - 1
    return f"{' with '.join(how)} would give about {1 / better_s:.1f} tok/s ({gain:+.0%})"


def _on_worth(measured: Measured, single_s: float, gain: float) -> str:
    is_one_machine = len({node.host for node in measured.nodes}) == 1
    alone = "one with all threads of the machine" if is_one_machine else "the best machine alone"
    about = "" if measured.one_node_s else "about "
    here = f"{1 / measured.token_s:.1f} tok/s on {len(measured.nodes)} nodes"
    rates = f"{here} against {about}{1 / single_s:.1f} on {alone}"
    if gain >= WORTH_IT:
        verdict = "worth it"
    elif is_one_machine:
        verdict = "not worth it, all nodes are one machine here"
    else:
        verdict = f"not worth it below {WORTH_IT:+.0%}, unless one has no room for it"
    return f"{rates} ({gain:+.0%}): {verdict}"


def in_ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms" if seconds < 0.01 else f"{seconds * 1000:.1f} ms"
