# python -m pytest tests/lan/test_hosts.py
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lan import hosts
from tests.lan.hosts import Lan, hindrance, lan

SEND = "import socket; s = socket.create_connection(('10.99.0.2', 9000)); s.sendall(bytes(100_000)); s.recv(1)"
TAKE = (
    "import socket; s = socket.create_server(('', 9000)); print(flush=True); c = s.accept()[0]\n"
    "n = 0\nwhile n < 100_000: n += len(c.recv(1 << 20))"
)


def test_what_one_host_sends_another_passes_its_link(network: Callable[[int], Lan]) -> None:
    first, second = network(2).hosts
    with subprocess.Popen(second.command(sys.executable, "-c", TAKE), stdout=subprocess.PIPE) as taking:
        assert taking.stdout is not None
        taking.stdout.readline()
        before = first.sent_bytes
        first.run(sys.executable, "-c", SEND)
    assert 100_000 < first.sent_bytes - before < 120_000


def test_hosts_have_names_and_interfaces_of_their_own(network: Callable[[int], Lan]) -> None:
    first, second = network(2).hosts
    assert [host.run("hostname").strip() for host in (first, second)] == ["node1", "node2"]
    assert sorted(first.run("ls", "/sys/class/net").split()) == ["eth0", "lo"]
    assert socket.gethostname() not in ("node1", "node2")


def test_two_networks_do_not_meet(network: Callable[[int], Lan]) -> None:
    here, there = network(2), network(2)
    before = socket.if_nameindex()
    for each in (here, there):
        assert "10.99.0.1/24" in each.hosts[0].run("ip", "addr", "show", "eth0")
    here.hosts[0].cut()
    assert "state DOWN" in here.hosts[0].run("ip", "link", "show", "eth0")
    assert "state UP" in there.hosts[0].run("ip", "link", "show", "eth0")
    assert socket.if_nameindex() == before


def test_a_host_knows_its_processes(network: Callable[[int], Lan]) -> None:
    first, second = network(2).hosts
    with subprocess.Popen(first.command("sleep", "60")) as sleeping:
        while not first.processes():
            assert sleeping.poll() is None
        assert first.processes() == [sleeping.pid]
        assert second.processes() == []
        sleeping.kill()


def test_nothing_is_left_of_a_host(_possible: None) -> None:
    with lan(2) as gone:
        first = gone.hosts[0]
        sleeping = subprocess.Popen(first.command("sleep", "60"))
        while not first.processes():
            assert sleeping.poll() is None
    assert sleeping.wait(10) == -signal.SIGKILL
    assert not any(Path(f"/proc/{host.process}").exists() for host in gone.hosts)


def test_an_address_without_a_host(network: Callable[[int], Lan]) -> None:
    two = network(2)
    command = [str(hosts.LAUNCHER), "-x", "10.99.0.7", "true"]
    done = subprocess.run(command, env=two.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 255
    assert done.stderr.startswith("no host has the address 10.99.0.7; there are 10.99.0.1=")


def test_a_machine_that_lacks_something_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts.os, "geteuid", lambda: 1000)
    assert hindrance() == "making hosts of network namespaces takes root"
    monkeypatch.setattr(hosts.os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "")
    assert hindrance() == "ip is missing (iproute2 and util-linux have what is needed)"
