"""Tables of cos and sin for RoPE, made once at the root and sent."""

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from dllama_py.config import ModelConfig
from dllama_py.model.angles import inverse_frequencies, turned
from dllama_py.transport.comm import Comm


@dataclass(frozen=True, slots=True)
class RopeTables:
    """float32 [positions, E/2] each."""

    cos: NDArray[np.float32]
    sin: NDArray[np.float32]


def frequencies(config: ModelConfig) -> list[Decimal]:
    """Radians a position for each of the E/2 pairs, llama3 scaling or a file's own factors applied."""
    plain = inverse_frequencies(config.rope_theta, config.head_width)
    if config.rope_factors is not None:
        divisors = list(config.rope_factors)
    elif config.rope_scaling is not None:
        divisors = [config.rope_scaling.divisor(float(frequency)) for frequency in plain]
    else:
        return plain
    return [frequency / Decimal(divisor) for frequency, divisor in zip(plain, divisors, strict=True)]


def shared_tables(config: ModelConfig, context: int, comm: Comm) -> RopeTables:
    """The root's tables on every rank."""
    tables = np.empty((2, context, config.head_width // 2), np.float32)
    if comm.rank == 0:
        tables[0], tables[1] = turned(frequencies(config), context)
    comm.broadcast(tables)
    return RopeTables(tables[0], tables[1])
