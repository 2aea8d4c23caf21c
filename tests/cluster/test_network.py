# python -m pytest tests/cluster/test_network.py
import subprocess
import sys

import pytest

from dllama_py.cluster.network import Network, find_network
from dllama_py.errors import UsageError


def test_an_interface_by_name() -> None:
    assert find_network("lo") == Network("lo")


@pytest.mark.parametrize("text", ["127.0.0.0/8", "127.0.0.1/8"])
def test_an_interface_by_its_subnet(text: str) -> None:
    assert find_network(text) == Network("lo", "127.0.0.0/8", "127.0.0.1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nosuch0", "no interface 'nosuch0' on this machine; it has .*lo.*; or give a subnet, as 192.168.1.0/24"),
        ("203.0.113.0/24", "no interface of .* is in 203.0.113.0/24; it has .*lo 127.0.0.1"),
    ],
)
def test_an_interface_that_is_not_there(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        find_network(text)


def test_a_rank_finds_the_subnet_on_its_own_machine() -> None:
    command = [sys.executable, "-m", "dllama_py.cluster.network"]
    done = subprocess.run([*command, "127.0.0.0/8", "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: python -m dllama_py")
    done = subprocess.run([*command, "203.0.113.0/24", "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: no interface of ")
