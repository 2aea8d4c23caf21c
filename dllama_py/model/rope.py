"""Tables of cos and sin for RoPE, made once at the root and sent."""

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from dllama_py.config import ModelConfig
from dllama_py.model.angles import turned
from dllama_py.rope_scaling import inverse_frequencies, scaled
from dllama_py.transport.comm import Comm


@dataclass(frozen=True, slots=True)
class RopeTables:
    """float32 [positions, E/2] each; layers with a window may have others."""

    cos: NDArray[np.float32]
    sin: NDArray[np.float32]
    of_windows: "RopeTables | None" = None

    def of_layer(self, has_window: bool) -> "RopeTables":
        return self.of_windows if has_window and self.of_windows else self


def frequencies(config: ModelConfig) -> list[Decimal]:
    """Radians a position for each of the E/2 pairs, a file's own factors and its scaling applied."""
    found = inverse_frequencies(config.rope_theta, config.head_width)
    if config.rope_factors is not None:
        found = scaled(found, map(Decimal, config.rope_factors))
    if config.rope_scaling is not None:
        found = scaled(found, config.rope_scaling.divisors(config.rope_theta, config.head_width))
    return found


def shared_tables(config: ModelConfig, context: int, comm: Comm) -> RopeTables:
    """The root's tables on every rank."""
    tables = np.empty((n_tables(config), 2, context, config.head_width // 2), np.float32)
    if comm.rank == 0:
        magnitude = config.rope_scaling.magnitude if config.rope_scaling else 1.0
        tables[0] = [magnitude * values for values in turned(frequencies(config), context)]
        if config.window_rope_theta is not None:
            tables[1] = turned(inverse_frequencies(config.window_rope_theta, config.head_width), context)
    comm.broadcast(tables)
    of_windows = RopeTables(tables[1, 0], tables[1, 1]) if n_tables(config) == 2 else None
    return RopeTables(tables[0, 0], tables[0, 1], of_windows)


def n_tables(config: ModelConfig) -> int:
    """How many pairs of tables a model has."""
    return 1 if config.window_rope_theta is None else 2
