# python -m pytest tests/transport/test_hosts.py
"""Machines are told apart by what their kernels say: not by names, nor by ids that are copied with a card."""

from pathlib import Path

import pytest

from dllama_py.planning.measuring import alike, turns_of
from dllama_py.transport.hosts import FACTS_BYTES, Host, decoded, encoded, own_host, sharing, told_apart


def host(folder: Path, boot_id: str = "", machine_id: str = "", **environment: str) -> Host:
    """This one, were its system's files these."""
    for name, text in (("boot", boot_id), ("machine", machine_id)):
        (folder / name).write_text(f"{text}\n")
    return own_host(environment, folder / "boot", folder / "machine")


@pytest.fixture(autouse=True)
def _raspberrypi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "raspberrypi")


def test_one_name_and_two_kernels_are_two_machines(tmp_path: Path) -> None:
    a, b, again = (host(tmp_path, boot, "copied") for boot in ("b1", "b2", "b1"))
    assert a != b and a == again
    assert a.machine_id == b.machine_id != ""  # reported, and no reason to take them for one


def test_a_kernel_is_one_machine_by_whatever_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a = host(tmp_path, "b1")
    monkeypatch.setattr("socket.gethostname", lambda: "3f2a91")
    container = host(tmp_path, "b1", "of its own")
    assert container == a and (container.name, str(container)) == ("3f2a91", "3f2a91")


def test_what_the_user_says_stands_for_the_kernel(tmp_path: Path) -> None:
    a, b = (host(tmp_path, "b1", DLLAMA_HOST_ID=said) for said in ("first", "second"))
    assert len({a, b, host(tmp_path, "b1")}) == 3
    assert a == host(tmp_path, "b2", DLLAMA_HOST_ID="first")


def test_a_system_that_says_nothing_goes_by_its_name(tmp_path: Path) -> None:
    assert host(tmp_path) == own_host({}, tmp_path / "missing", tmp_path / "missing")


def test_this_system() -> None:
    own = own_host()
    assert own == own_host() and len(own.id) == 16
    assert decoded(encoded(own)) == own and len(encoded(own)) == FACTS_BYTES


def test_all_that_is_told_arrives() -> None:
    own = Host("0123456789abcdef", "n" * 300, "fedcba9876543210", "00112233445566aa")
    there = decoded(encoded(own))
    assert (there.id, there.machine_id, there.container) == (own.id, own.machine_id, own.container)
    assert there.name == "n" * 200 and len(encoded(own)) == FACTS_BYTES


def test_an_older_version_sends_its_name_alone() -> None:
    assert decoded(b"attic".ljust(FACTS_BYTES, b"\0")) == Host.named("attic")


def test_shown_names_are_distinct_and_ranks_of_a_machine_keep_one() -> None:
    hosts = [Host(boot, name) for boot, name in (("1", "pi"), ("2", "pi"), ("3", "pc"), ("2", "pi"), ("4", "pi"))]
    shown = told_apart(hosts)
    assert [each.name for each in shown] == ["pi", "pi (2)", "pc", "pi (2)", "pi (3)"]
    assert list(shown) == hosts


def test_ranks_on_the_machine_and_in_the_container() -> None:
    hosts = [Host("1", "pi"), Host("2", "pi"), Host("3", "a", container="a"), Host("3", "b", container="b")]
    assert [sharing(hosts, rank) for rank in range(4)] == [(1, 1), (1, 1), (2, 1), (2, 1)]


def test_machines_of_one_name_are_measured_each_and_at_once() -> None:
    """A fast and a slow one would else have one speed."""
    pis = told_apart([Host("1", "pi"), Host("2", "pi")])
    assert alike(pis, [4, 4], 2) == [0, 1] and turns_of(pis, 2, [0, 1]) == [0, 0]
    one = told_apart([Host("1", "a"), Host("1", "b")])
    assert alike(one, [4, 4], 2) == [0, 0] and turns_of(one, 2, [0, 0]) == [0, 0]
    assert turns_of(one, 2, [0, 1]) == [0, 1]
