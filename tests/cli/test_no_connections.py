# python -m pytest tests/cli/test_no_connections.py
"""Nothing but launch.py opens a connection to the outside: the modes work where there is no outside, and try none."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ISOLATED = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
WATCHED = """
import runpy, sys
def hook(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        sys.stderr.write(f"OUTSIDE {event} {arguments!r}\\n")
sys.addaudithook(hook)
sys.argv = ["dllama", *sys.argv[1:]]
runpy.run_module("dllama_py", run_name="__main__", alter_sys=True)
"""


def can_isolate() -> bool:
    """Making a network namespace takes root, or a system that lets users make them."""
    try:
        return subprocess.run([*ISOLATED, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("n_ranks", [1, 2])
def test_inference_without_a_route(smollm2_gguf: Path, n_ranks: int) -> None:
    if not can_isolate():
        pytest.skip("this user may not make a network namespace; as root this test runs")
    alone = [sys.executable, "-m", "dllama_py", "--model", smollm2_gguf, "--steps", "4", "--json"]
    command = alone if n_ranks == 1 else [Path(sys.executable).with_name("mpirun"), "-np", str(n_ranks), *alone]
    routes = subprocess.run([*ISOLATED, "cat", "/proc/net/route"], capture_output=True, text=True, check=True)
    assert len(routes.stdout.splitlines()) <= 1  # the heads of its columns
    done = subprocess.run([*ISOLATED, *command], capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout.splitlines()[-1])["ids"]) == 4


@pytest.mark.parametrize("mode", ["inference", "tokenize", "inspect"])
def test_a_mode_connects_to_nobody(smollm2_gguf: Path, mode: str) -> None:
    options = {
        "inference": ["--model", smollm2_gguf, "--steps", "2"],
        "tokenize": ["--model", smollm2_gguf, "--prompt", "Hello"],
        "inspect": [smollm2_gguf],
    }[mode]
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, mode, *options],
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "OUTSIDE" not in done.stderr


def test_the_watch_would_see_a_connection() -> None:
    connects = 'import socket; socket.socket().connect_ex(("127.0.0.1", 9))'
    program = f"{WATCHED.partition('sys.argv =')[0]}{connects}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.startswith("OUTSIDE socket.connect ")


@pytest.mark.parametrize("module", ["huggingface_hub", "httpx2", "requests"])
def test_no_mode_loads_a_library_that_connects(module: str) -> None:
    program = (
        "import sys, pkgutil, importlib, dllama_py.cli\n"
        "for each in pkgutil.iter_modules(dllama_py.cli.__path__):\n"
        "    importlib.import_module(f'dllama_py.cli.{each.name}')\n"
        f"sys.exit({module!r} in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
