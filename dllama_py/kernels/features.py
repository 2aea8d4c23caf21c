"""Which CPU features numba compiles for."""

import llvmlite.binding as llvm
from numba.core import config


def _features() -> frozenset[str]:
    """numba's override (NUMBA_CPU_FEATURES) if set, else the host's."""
    if config.CPU_FEATURES is not None:
        return frozenset(f[1:] for f in config.CPU_FEATURES.split(",") if f.startswith("+"))
    return frozenset(name for name, on in llvm.get_host_cpu_features().items() if on)


FEATURES = _features()
IS_ARM = "neon" in FEATURES
HAS_HALF_CONVERSION = IS_ARM or "f16c" in FEATURES
