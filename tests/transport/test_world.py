# python -m pytest tests/transport/test_world.py
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from dllama_py.errors import ClusterError
from dllama_py.transport import world
from dllama_py.transport.world import check_size, joined_world


def test_without_a_launcher_the_world_is_one_process() -> None:
    with joined_world({}) as comm:
        assert (comm.rank, comm.size, len(comm.hosts)) == (0, 1, 1)


@pytest.mark.parametrize("name", ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE"])
def test_groups_of_one_are_exposed(name: str) -> None:
    with pytest.raises(ClusterError, match="launcher started 4 ranks, but MPI gives each a world of 1"):
        check_size(1, {name: "4"})


def test_an_expected_size_is_compared() -> None:
    check_size(4, {"DLLAMA_EXPECT_RANKS": "4", "PMI_SIZE": "4"})
    with pytest.raises(ClusterError, match="world of 2, but DLLAMA_EXPECT_RANKS says 4: start it with mpirun -np 4"):
        check_size(2, {"DLLAMA_EXPECT_RANKS": "4"})


def test_a_missing_mpi_library_is_explained() -> None:
    program = (
        "from dllama_py.transport.world import joined_world\n"
        "joined_world({'PMI_RANK': '0', 'PMI_SIZE': '2'}).__enter__()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"MPI4PY_LIBMPI": "/nowhere/libmpi.so"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines()[-1].endswith("else pip install --force-reinstall mpich")


@pytest.mark.parametrize(
    ("installed", "cure"),
    [(None, "pip install mpich"), ("0.0.0", "the mpich 0.0.0 that is installed is an empty package; install the ")],
)
def test_what_to_install(installed: str | None, cure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(name: str) -> str:
        if installed is None:
            raise PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(world, "version", found)
    assert world._cure().startswith(cure)


def test_one_process_needs_neither_mpi4py_nor_numba() -> None:
    program = (
        "import sys; sys.modules['mpi4py'] = sys.modules['numba'] = None\n"
        "from dllama_py.transport.world import joined_world\n"
        "print(joined_world({}).__enter__().size)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def test_a_job_is_joined_once() -> None:
    program = (
        "from dllama_py.transport.world import joined_world\nwith joined_world():\n    pass\njoined_world().__enter__()"
    )
    mpirun = Path(sys.executable).with_name("mpirun")
    done = subprocess.run([mpirun, "-np", "1", sys.executable, "-c", program], capture_output=True, text=True)
    assert "UsageError: this process has left its job, which has ended; open one engine a job" in done.stderr
