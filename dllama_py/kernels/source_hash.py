"""What compiled kernels depend on, as one hash: sources, versions, CPU, and what is said to numba about all three.

The sources are those of this room and all others of the package that they import, wherever a clone of them lies.
"""

import hashlib
import os
import platform
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
_NAMES = r"\([\w\s,]*|[\w ,]*"  # of an import, over lines only in brackets
_IMPORT = re.compile(rf"^ *(?:from|import) +{PACKAGE.name}([\w.]*)(?: +import +({_NAMES}))?", re.MULTILINE)
# What changes the code that numba makes, with the overrides by which one CPU plays another.
_OPTIONS = ("CPU_NAME", "CPU_FEATURES", "OPT", "ENABLE_AVX", "BOUNDSCHECK", "LOOP_VECTORIZE", "SLP_VECTORIZE")


def fingerprint() -> str:
    """16 hexadecimal digits: equal where the compiled code would be equal."""
    digest = hashlib.sha256()
    for source in sources():
        digest.update(str(source.relative_to(PACKAGE)).encode())
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    options = [os.environ.get(f"NUMBA_{name}", "") for name in _OPTIONS]
    for fact in (version("numba"), version("llvmlite"), platform.python_version(), _cpu(), *options):
        digest.update(fact.encode() + b"\0")
    return digest.hexdigest()[:16]


def sources() -> list[Path]:
    """This room's modules, in all its folders, and the modules of the package that these import, directly or not."""
    found = set(Path(__file__).parent.rglob("*.py"))
    unread = list(found)
    while unread:
        new = set(_imported(unread.pop().read_text())) - found
        found |= new
        unread += new
    return sorted(found)


def _imported(text: str) -> Iterator[Path]:
    """Modules of the package whose import stands in a source. A name that is no module is one of a module."""
    for module, names in _IMPORT.findall(text):
        folder = PACKAGE.joinpath(*module.split("."))
        for path in (folder, *(folder / name for name in re.findall(r"\w+", names))):
            for file in (path.with_suffix(".py"), path / "__init__.py"):
                if path != PACKAGE and file.is_file():
                    yield file


def _cpu() -> str:
    """CPU model and features."""
    wanted = ("model name", "flags", "Features", "CPU part")
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    facts = sorted({line for line in lines if line.startswith(wanted)})
    return "\n".join([platform.machine(), *facts])
