"""An environment of its own for llama-cpp-python, which is built there for this machine's CPU."""

import os
import subprocess
import sys
from pathlib import Path

REQUIREMENT = "llama-cpp-python==0.3.36"
AMX_STORES = Path(__file__).with_name("amx_stores.h")


def llama_python(folder: Path) -> Path:
    """The interpreter that can import llama_cpp; makes what is missing, which takes some 20 minutes on two cores.

    CalledProcessError where it cannot be built: that needs compilers of C and C++, and the package index.
    """
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    if subprocess.run([python, "-I", "-c", "import llama_cpp"], stderr=subprocess.DEVNULL).returncode:
        print(f"building {REQUIREMENT} in {folder}", file=sys.stderr, flush=True)
        options = {"CMAKE_ARGS": "-DGGML_NATIVE=ON", "CXXFLAGS": f"-include {AMX_STORES}"}
        wish = [python, "-m", "pip", "install", "--no-binary", "llama-cpp-python", REQUIREMENT]
        subprocess.run(wish, env={**os.environ, **options}, stdout=sys.stderr, check=True)
    return python
