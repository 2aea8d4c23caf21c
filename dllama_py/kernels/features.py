"""Which CPU features numba compiles for.

Asked in this order: numba's override (NUMBA_CPU_FEATURES, with NUMBA_CPU_NAME), by which one CPU plays another; else
LLVM. On ARM LLVM knows the features of CPUs that it knows by name, and no others on some systems, so there the
operating system is asked too, and numba is told what it says.
"""

import platform
from pathlib import Path

from numba.core import config
from numba.core.codegen import get_host_cpu_features

ARM_MACHINES = ("aarch64", "arm64")  # as Linux and macOS call them


def enabled(flags: str) -> frozenset[str]:
    """The names that an LLVM feature string such as "+avx2,-avx512f" turns on."""
    return frozenset(flag[1:] for flag in flags.split(",") if flag.startswith("+"))


def arm_features(system: str, cpuinfo: str) -> frozenset[str]:
    """What the kernels use of an ARM CPU of 64 bits, by LLVM's names.

    NEON, fma and conversions of halves belong to all of them; products of bytes (dotprod) and CRC-32C to those whose
    cores all say so in /proc/cpuinfo, and to every Mac.
    """
    cores = [line.partition(":")[2].split() for line in cpuinfo.splitlines() if line.startswith("Features")]
    told = {"asimddp": "dotprod", "crc32": "crc"}
    sure = {name for flag, name in told.items() if cores and all(flag in flags for flags in cores)}
    return frozenset({"neon", *(told.values() if system == "Darwin" else sure)})


def _read_cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""


def _features() -> frozenset[str]:
    if config.CPU_FEATURES is None and platform.machine() in ARM_MACHINES:
        told = [get_host_cpu_features(), *sorted(f"+{f}" for f in arm_features(platform.system(), _read_cpuinfo()))]
        config.CPU_FEATURES = ",".join(filter(None, told))
    return enabled(get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES)


FEATURES = _features()
IS_ARM = "neon" in FEATURES
HAS_HALF_CONVERSION = IS_ARM or "f16c" in FEATURES
HAS_CRC32C = ("crc" if IS_ARM else "sse4.2") in FEATURES
