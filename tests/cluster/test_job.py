# python -m pytest tests/cluster/test_job.py
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dllama_py.cluster.job import Placement, exit_code, job_command, run_job, write_script
from dllama_py.cluster.network import Network
from dllama_py.errors import ClusterError

PYTHON, MPIRUN = sys.executable, str(Path(sys.executable).with_name("mpirun"))
LISTEN = Path(__file__).parent / "programs" / "listen.py"


def test_the_plain_command() -> None:
    command = job_command(Placement(4), ["chat", "--model", "m.gguf"])
    assert command == [MPIRUN, "-np", "4", PYTHON, "-m", "dllama_py", "chat", "--model", "m.gguf"]


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    placement = Placement(2, tmp_path / "hosts", Network("lo"), (20000, 20100), 10)
    assert job_command(placement, ["chat"]) == [
        "env", "MPIEXEC_PORT_RANGE=20000:20100", MPIRUN, "-np", "2", "-f", str(tmp_path / "hosts"), "-iface", "lo",
        "-genv", "UCX_NET_DEVICES", "lo", "-genv", "FI_TCP_IFACE", "lo",
        "-genv", "UCX_TCP_PORT_RANGE", "20000-20100",
        "-genv", "FI_TCP_PORT_LOW_RANGE", "20000", "-genv", "FI_TCP_PORT_HIGH_RANGE", "20100",
        "nice", "-n", "10", PYTHON, "-m", "dllama_py", "chat",
    ]  # fmt: skip


def test_by_subnet_each_rank_looks_for_its_own_interface() -> None:
    network = Network("lo", "127.0.0.0/8", "127.0.0.1")
    assert job_command(Placement(2, network=network), ["chat"]) == [
        MPIRUN, "-np", "2", "-localhost", "127.0.0.1", PYTHON, "-m", "dllama_py.cluster.network", "127.0.0.0/8", "chat",
    ]  # fmt: skip


def test_a_job_on_a_subnet_starts(tmp_path: Path) -> None:
    command = job_command(Placement(2, network=Network("lo", "127.0.0.0/8", "127.0.0.1")), ["--help"])
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: python -m dllama_py")


@pytest.fixture
def ports() -> range:
    """A hundred in a row that are free, and not those of a test that runs at the same time in another process."""
    own = os.getpid() % 200
    hundreds = [range(first, first + 100) for first in range(10000, 30000, 100)]
    return next(ports for ports in (*hundreds[own:], *hundreds[:own]) if all(map(is_free, ports)))


def is_free(port: int) -> bool:
    with socket.socket() as end:
        return end.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.parametrize("layer", ["ucx", "ofi"])
@pytest.mark.parametrize("network", [Network("lo"), None])
def test_ranks_listen_where_they_are_told(network: Network | None, layer: str, ports: range) -> None:
    command = job_command(Placement(2, network=network, ports=(ports[0], ports[-1])), [])
    command[command.index("dllama_py") - 1 :] = [str(LISTEN)]
    environment = {**os.environ, "MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": layer, "FI_PROVIDER": "tcp"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    listening = [line.rsplit(":", 1) for line in done.stdout.split()]
    own = [(address, int(port)) for address, port in listening if address != "0.0.0.0"]  # the rest is the launcher's
    assert len(own) >= 2
    assert [port for _, port in listening if int(port) not in ports] == []
    if network is not None:
        assert {address for address, _ in own} == {"127.0.0.1"}


def test_the_script_says_the_command_and_passes_options_on(tmp_path: Path) -> None:
    script = tmp_path / "run tiny.sh"
    write_script(script, ["echo", "a b", "$HOME", "it's"], "a chat with tiny on 4 ranks")
    assert script.read_text().splitlines()[:2] == [
        "#!/bin/sh",
        "# Starts a chat with tiny on 4 ranks; further options are passed on, such as --max-seq-len 8192",
    ]
    assert """exec echo 'a b' '$HOME' 'it'"'"'s' "$@"\n""" in script.read_text()
    done = subprocess.run([script, "--steps", "3 4"], capture_output=True, text=True, check=True)
    assert done.stdout == "a b $HOME it's --steps 3 4\n"
    assert [path.name for path in tmp_path.iterdir()] == ["run tiny.sh"]


def test_two_launches_may_write_one_script_at_once(tmp_path: Path) -> None:
    write = "from pathlib import Path\nfrom dllama_py.cluster.job import write_script\n"
    write += f"for _ in range(300): write_script(Path({str(tmp_path / 'run.sh')!r}), ['true'], 'nothing')"
    both = [subprocess.Popen([sys.executable, "-c", write]) for _ in range(2)]
    assert [one.wait() for one in both] == [0, 0]
    assert run_job([str(tmp_path / "run.sh")]) == 0


def test_the_hubs_token_does_not_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    write_script(tmp_path / "run.sh", ["sh", "-c", f"env > '{tmp_path}/seen'"], "nothing")
    assert run_job([str(tmp_path / "run.sh")]) == 0
    assert "hf_secret" not in (tmp_path / "seen").read_text()


@pytest.mark.parametrize(("code", "reported"), [(0, 0), (2, 2), (3, 3), (9, 3), (130, 130), (255, 3)])
def test_exit_codes_of_a_job(tmp_path: Path, code: int, reported: int) -> None:
    write_script(tmp_path / "run.sh", ["sh", "-c", f"exit {code}"], "nothing")
    assert run_job([str(tmp_path / "run.sh")]) == reported
    assert exit_code(code) == reported


def test_without_a_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ClusterError, match="no mpirun beside .*; pip install mpich"):
        job_command(Placement(4), [])
