"""Tables of cos and sin for RoPE, made once at the root (platforms' cos differ in the last bit) and sent."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dllama_py.config import ModelConfig
from dllama_py.transport.comm import Comm


@dataclass(frozen=True, slots=True)
class RopeTables:
    """float32 [positions, E/2] each."""

    cos: NDArray[np.float32]
    sin: NDArray[np.float32]


def inverse_frequencies(config: ModelConfig) -> NDArray[np.float64]:
    """Radians a position for each of the E/2 pairs, llama3 scaling or a file's own factors applied; float64 [E/2]."""
    exponents = np.arange(0, config.head_width, 2, dtype=np.float64) / config.head_width
    frequencies: NDArray[np.float64] = config.rope_theta**-exponents
    if config.rope_factors is not None:
        frequencies /= np.array(config.rope_factors)
    elif config.rope_scaling is not None:
        frequencies /= np.array(config.rope_scaling.divisors(config.rope_theta, config.head_width))
    return frequencies


def shared_tables(config: ModelConfig, context: int, comm: Comm) -> RopeTables:
    """The root's tables on every rank."""
    tables = np.empty((2, context, config.head_width // 2), np.float32)
    if comm.rank == 0:
        angles = np.outer(np.arange(context), inverse_frequencies(config))  # [S, E/2]
        tables[0], tables[1] = np.cos(angles), np.sin(angles)
    comm.broadcast(tables)
    return RopeTables(tables[0], tables[1])
