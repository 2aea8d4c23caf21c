# python -m pytest tests/cluster/test_host_check.py
"""What is said of machines that no rank could start on, by a real ssh and a real sshd on this machine."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import dllama_py
from dllama_py.cli.starting import check_hosts
from dllama_py.cluster.host_check import LAUNCHER, failing_hosts
from dllama_py.errors import ClusterError
from dllama_py.troubleshooting import row_of

PACKAGE = Path(dllama_py.__file__).parent
SSHD = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")
pytestmark = pytest.mark.skipif(SSHD is None, reason="needs sshd: apt-get install openssh-server")

SERVER = """Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized
StrictModes no
UsePAM no
PermitRootLogin yes
PidFile none
"""
HOST = """Host {name}
  HostName 127.0.0.1
  Port {port}
  IdentityFile {folder}/{key}
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile /dev/null
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking {checking}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With an sshd, and an ssh that knows hosts of several kinds by name."""
    folder = tmp_path_factory.mktemp("ssh")
    keys = ["host", "good", "stranger", "elsewhere", "changed", "older"]
    for key in keys:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    shutil.copytree(PACKAGE, folder / "changed-src" / "dllama_py", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(folder / "changed-src", folder / "older-src")
    (folder / "changed-src" / "dllama_py" / "another.py").write_text("# a file more\n")
    (folder / "older-src" / "dllama_py" / "cluster" / "host_report.py").unlink()
    asked = "$SSH_ORIGINAL_COMMAND"
    forced = {
        "good": "",
        "elsewhere": f'command="sh -c \\"$(echo \\"{asked}\\" | sed s,{sys.prefix},/nowhere,)\\"" ',
        "changed": f'command="export PYTHONPATH={folder}/changed-src; eval \\"{asked}\\"" ',
        "older": f'command="export PYTHONPATH={folder}/older-src; eval \\"{asked}\\"" ',
    }
    authorized = [command + (folder / f"{key}.pub").read_text() for key, command in forced.items()]
    (folder / "authorized").write_text("".join(authorized))
    with socket.create_server(("127.0.0.1", 0)) as end:
        port = end.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as end:
        closed = end.getsockname()[1]
    swallowing = socket.create_server(("127.0.0.1", 0))  # takes a connection and says nothing
    hosts = [(key, port, key, "no") for key in keys[1:]]
    hosts += [("closed", closed, "good", "no"), ("silent", swallowing.getsockname()[1], "good", "no")]
    hosts += [("unknown", port, "good", "ask")]
    (folder / "config").write_text(
        "".join(HOST.format(name=name, port=at, key=key, folder=folder, checking=how) for name, at, key, how in hosts)
    )
    (folder / "ssh").write_text(f'#!/bin/sh\nexec ssh -F {folder}/config "$@"\n')
    (folder / "ssh").chmod(0o755)
    (folder / "sshd_config").write_text(SERVER.format(port=port, folder=folder))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # the packages' own start makes it
    assert SSHD is not None
    with (folder / "log").open("w") as log:
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "sshd_config"], stderr=log)
    until = time.monotonic() + 60
    while not _listens(port):
        assert server.poll() is None and time.monotonic() < until, (folder / "log").read_text()
        time.sleep(0.05)
    yield folder
    server.terminate()
    server.wait()
    swallowing.close()


def _listens(port: int) -> bool:
    with socket.socket() as end:
        return end.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(autouse=True)
def _ssh(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LAUNCHER, str(folder / "ssh"))


@pytest.mark.parametrize(
    ("name", "words", "row"),
    [
        ("stranger", "accepts no key of this user: `ssh-copy-id stranger` brings one there", "host-key"),
        ("unknown", "has a host key that is not known here: `ssh unknown true` asks once", "host-key"),
        ("closed", "has no ssh server on that port: `sudo apt install openssh-server`", "host-away"),
        ("silent", "does not answer: is it on, and is the address right? `ping silent` tells", "host-away"),
        ("elsewhere", f"has no Python at {sys.executable}: the clone must be at the same path there", "host-clone"),
        ("changed", "has dllama-py sources ", "host-clone"),
        ("older", "has another version of this program", "host-clone"),
    ],
)
def test_a_line_says_what_is_wrong_and_what_to_type(name: str, words: str, row: str) -> None:
    (line,) = failing_hosts([name], limit_s=60)
    assert line.startswith(f"{name} {words}") and row_of(line) == row


def test_good_hosts_and_this_one_are_not_spoken_of() -> None:
    assert failing_hosts(["localhost", "127.0.0.1", "good"], limit_s=60) == []


def test_what_is_silent_beyond_the_limit_is_ended() -> None:
    assert failing_hosts(["silent"], limit_s=0.5) == [
        "silent does not answer: is it on, and is the address right? `ping silent` tells"
    ]


def test_each_failing_machine_that_is_needed_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hosts").write_text("localhost:1\nclosed:1\nstranger:1\nsilent:1\n")
    with pytest.raises(ClusterError, match="^stranger accepts no key"):
        check_hosts(tmp_path / "hosts", 3)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: closed has no ssh server") and line.endswith("#host-away)")
    check_hosts(tmp_path / "hosts", 1)


GREETING = r"printf 'Gr\374\337e {0} {x}\n'"  # in Latin-1, and with what str.format would take as a field


@pytest.mark.parametrize("after", ["", "; printf 'a line without an end'; printf 'and {1} errors \377' >&2"])
def test_a_greeting_in_any_encoding_hides_no_good_host(
    after: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ssh").write_text(f'#!/bin/sh\n{GREETING}{after}\nfor command; do :; done\neval "$command"\n')
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv(LAUNCHER, str(tmp_path / "ssh"))
    assert failing_hosts(["good"], limit_s=60) == []


def test_a_refusal_is_told_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ssh").write_text("#!/bin/sh\nprintf 'no {1} \\377\\n' >&2\nexit 255\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv(LAUNCHER, str(tmp_path / "ssh"))
    assert failing_hosts(["good"], limit_s=60) == [
        "good cannot be reached by ssh (no {1} \ufffd): `ssh good true` must work"
    ]
