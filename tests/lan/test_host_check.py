# python -m pytest tests/lan/test_host_check.py
"""Machines that are away: the system's ssh against addresses that answer nothing, within the limit."""

import json
import subprocess
import sys
import time
from collections.abc import Callable

from dllama_py.cluster.host_check import CONNECT_S, LAUNCHER, LIMIT_S
from tests.lan.hosts import LAUNCHER as PROGRAM
from tests.lan.hosts import Lan

SILENT = "does not answer: is it on, and is the address right?"
LOOK = (
    "import json, sys; from dllama_py.cluster.host_check import failing_hosts; print(json.dumps(failing_hosts("
    "sys.argv[1:])))"
)


def look(network: Lan, *addresses: str, environment: dict[str, str] | None = None) -> list[str]:
    command = network.hosts[0].command(sys.executable, "-c", LOOK, *addresses)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    lines: list[str] = json.loads(done.stdout)
    return lines


def test_addresses_that_swallow_packets_and_nobodys(network: Callable[[int], Lan]) -> None:
    lan = network(2)
    lan.hosts[1].run("ip", "route", "add", "blackhole", "10.99.0.1/32")  # what comes is heard, no answer leaves
    began = time.monotonic()
    lines = look(lan, "10.99.0.1", "10.99.0.2", "10.99.0.9")
    assert [line.split(" `")[0] for line in lines] == [f"10.99.0.2 {SILENT}", f"10.99.0.9 {SILENT}"]
    assert time.monotonic() - began < 10 * (LIMIT_S + CONNECT_S)  # no minutes


def test_a_launcher_of_the_users_own_is_taken(network: Callable[[int], Lan]) -> None:
    lan = network(2)
    assert look(lan, "10.99.0.1", "10.99.0.2", environment={**lan.environment(), LAUNCHER: str(PROGRAM)}) == []
