# python -m pytest tests/transport/test_versions.py
"""Ranks of different versions are told apart at the start, in one line that names both."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dllama_py
from dllama_py.errors import ClusterError
from dllama_py.transport.comm import Comm
from dllama_py.transport.failure import AgreedFailure
from dllama_py.transport.hosts import Host
from dllama_py.transport.versions import check_same_versions, compare, own_versions
from tests.support.threads import run_ranks

OURS = {"dllama-py": "0.1.0", "dllama-py sources": "aa", "Python": "3.12", "numpy": "2.1.0", "numba": "0.61.0"}


def test_our_own() -> None:
    own = own_versions()
    assert own.keys() == OURS.keys() and own["dllama-py"] == dllama_py.__version__
    assert own["Python"] == f"{sys.version_info[0]}.{sys.version_info[1]}" and len(own["dllama-py sources"]) == 8


@pytest.mark.parametrize(("name", "value"), [("numba", "0.60.0"), ("Python", "3.11"), ("dllama-py", "0.2.0")])
def test_both_are_named(name: str, value: str) -> None:
    line = (
        f"rank 1 on b has {name} {value}, rank 0 on a has {name} {OURS[name]}; install the same versions on every host"
    )
    with pytest.raises(ClusterError, match=line):
        compare([OURS, OURS | {name: value}], [Host.named("a"), Host.named("b")])


@pytest.mark.parametrize("other", ["a", "b"])
def test_other_sources(other: str) -> None:
    """Also on one machine, in another container or folder."""
    line = f"rank 1 on {other} has dllama-py sources bb, rank 0 on a has dllama-py sources aa"
    with pytest.raises(ClusterError, match=line):
        compare([OURS, OURS | {"dllama-py sources": "bb"}], [Host.named("a"), Host.named(other)])


def test_all_ranks_leave() -> None:
    def work(comm: Comm) -> str:
        try:
            check_same_versions(comm, OURS | ({"numpy": "1.26"} if comm.rank == 1 else {}))
        except AgreedFailure as failure:
            return str(failure)
        except SystemExit as end:
            return f"code {end.code}"
        return "went on"

    told, *others = run_ranks(3, work)
    assert told.startswith("rank 1 on ") and "has numpy 1.26, rank 0 on " in told
    assert others == ["code 3", "code 3"]


def test_another_version_on_one_rank_ends_the_job(tmp_path: Path) -> None:
    other = tmp_path / "dllama_py"
    shutil.copytree(Path(dllama_py.__file__).parent, other, ignore=shutil.ignore_patterns("__pycache__"))
    (other / "__init__.py").write_text('"""Another version."""\n\n__version__ = "9.9"\n')
    script = f'if [ "$PMI_RANK" = 1 ]; then cd {tmp_path}; fi; exec "$@"'
    mpirun = str(Path(sys.executable).with_name("mpirun"))
    command = [mpirun, "-np", "2", "sh", "-c", script, "sh", sys.executable, "-m", "dllama_py", "inference"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: rank 1 on ")
    assert "has dllama-py 9.9, rank 0 on " in line and line.endswith(" every host (docs/troubleshooting.md#versions)")
