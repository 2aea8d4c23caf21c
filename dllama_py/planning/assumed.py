"""Nodes that nobody has measured: all equal, for plans made from a model's headers alone."""

from dllama_py.blocks import FloatType
from dllama_py.cost_model import Link
from dllama_py.memory_plan import NodeFacts
from dllama_py.planning.speeds import KindSpeed, RankSpeed
from dllama_py.planning.wishes import Links, Node
from dllama_py.transport.hosts import Host

MACS_PER_BYTE = 6  # a desktop of four cores: 20 GB/s and 120 GMAC/s
LATENCY_S = 150e-6  # of a message through a switch
LINK_SHARE = 0.94  # of a link's bits, which are a message's
LAYER_S, ROW_LAYER_S, STEP_S = 50e-6, 20e-6, 0.2e-3


def assumed_node(host: str, free_bytes: int | None, bytes_per_s: float, n_threads: int) -> Node:
    """A rank on that host, of which all ranks there have an even share; it reads weights of every type at this rate."""
    speed = KindSpeed(bytes_per_s, MACS_PER_BYTE * bytes_per_s)
    facts = NodeFacts(Host.named(host), n_threads, free_bytes, None)
    return Node(facts, RankSpeed(dict.fromkeys(FloatType, speed), LAYER_S, ROW_LAYER_S, STEP_S))


def assumed_links(n_nodes: int, bits_per_s: float) -> Links:
    """All on one switch."""
    return [[Link(LATENCY_S, LINK_SHARE * bits_per_s / 8)] * n_nodes] * n_nodes
