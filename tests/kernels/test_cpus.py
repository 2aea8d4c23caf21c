# python -m pytest tests/kernels/test_cpus.py
"""All CPUs compute the same bits: older ones are played by numba's override, each in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import llvmlite.binding as llvm
import pytest

from tests.kernels.samples import is_whole_for, kinds_for

OUTPUTS_SHA256 = "05886bd3b9d59110b125fc9c2269eeb8ddfa843627b2a3c8aaca272e779c0938"
PRODUCTS_SHA256 = {  # by type of weights
    "f32": "bdb2c795b8fb",
    "f16": "7a8e94166fa0",
    "bf16": "5aaf124761ac",
    "q40": "08ac66221d7c",
    "q41": "c82eeef0bb77",
    "q50": "6efdd07cffd5",
    "q51": "7a56211cf3c6",
    "q80": "2dfdeef22b78",
    "q2_k": "85ce4bc3200e",
    "q3_k": "793cac446b24",
    "q4_k": "4c898e6d88f8",
    "q5_k": "ba4d1b3367db",
    "q6_k": "ea693b0694e6",
    "iq3_s": "c4c80a2ebf49",
    "iq2_s": "4580d6206be4",
    "iq4_xs": "654da195b837",
    "iq1_m": "fcf11d7399cc",
    "mxfp4": "0451ed19b5f1",
    "iq4_nl": "909286ecad36",
    "iq2_xxs": "f378f3de6c96",
    "iq2_xs": "ae2d919c65bb",
    "iq3_xxs": "39f9f5ebc4ad",
    "iq1_s": "2058b97b4b9a",
}
SPECIALS = (  # see fingerprint.specials
    "7e00 fe00 7e00 ffff 7bff fbff 7fc0 ffc0 7fc0 ffff 7f80 ff80 7fc00000 ffc00000 7fc02000 ffffe000 7f800000 ff800000"
)
HOPS = "a8312dba8acdf5b9fcde8f43f011079360a6860b8a61d85900f78109afeba13c c7e4feab"  # see fingerprint.hops


def known(way: str) -> dict[str, object]:
    """What fingerprint.facts must find on CPUs that multiply in this way."""
    products = {kind.label: PRODUCTS_SHA256[kind.label] for kind in kinds_for(way)}
    whole = {"outputs": OUTPUTS_SHA256} if is_whole_for(way) else {}
    return {"specials": SPECIALS, "hops": HOPS, "products": products} | whole


HASWELL = "+avx2,+fma,+f16c,+avx,+bmi,+bmi2,+sse4.2,+ssse3,+popcnt,+lzcnt,+movbe,+xsave"
CPUS = [  # path, what a CPU must have to play it, NUMBA_CPU_NAME, NUMBA_CPU_FEATURES; the first way to a path is taken
    ("AVX-VNNI", "avxvnni", "alderlake", f"{HASWELL},+avxvnni"),
    ("AVX-VNNI", "avx512vnni", "haswell", f"{HASWELL},+avx512vl,+avx512vnni"),  # the same instructions, other bytes
    ("AVX2", "avx2", "haswell", HASWELL),
    ("generic", "sse2", "x86-64", "+sse2"),
    ("NEON", "neon", "cortex-a72", "+neon"),
]
HAS = llvm.get_host_cpu_features()
PLAYED = {path: overrides for path, needed, *overrides in reversed(CPUS) if HAS.get(needed)}


def start(overrides: dict[str, str]) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    command = [sys.executable, "-W", "error", "-m", "tests.kernels.fingerprint"]
    return subprocess.Popen(command, env=kept | overrides, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


pytestmark = pytest.mark.timeout(600)  # compiling for every CPU


@pytest.fixture(scope="module")
def found() -> Iterator[dict[str, dict[str, object]]]:
    """What each CPU says. At once: most of their time is compiling."""
    jobs = {path: start({"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": on}) for path, (name, on) in PLAYED.items()}
    jobs["this CPU"] = start({})
    try:
        yield {path: facts_of(job) for path, job in jobs.items()}
    finally:
        for job in jobs.values():
            job.kill()
            job.communicate()


def facts_of(job: subprocess.Popen[str]) -> dict[str, object]:
    out, err = job.communicate()
    assert job.returncode == 0, err
    facts: dict[str, object] = json.loads(out)
    return facts


def test_this_cpu_computes_the_known_bits(found: dict[str, dict[str, object]]) -> None:
    way = str(found["this CPU"]["way"])
    assert found["this CPU"] == {"way": way} | known(way)


@pytest.mark.parametrize("path", PLAYED)
def test_an_older_cpu_computes_the_known_bits(found: dict[str, dict[str, object]], path: str) -> None:
    assert found[path] == {"way": path} | known(path)
