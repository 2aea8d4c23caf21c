"""Rules for tests that run under mpirun: all ranks collect and run the same tests in the same order.

A rank that fails would leave the others in their next message for ever, so it tells its report and ends the job.
Nothing may be skipped: tests are for worlds of 1, 2 and 4; one for other sizes says `@pytest.mark.mpi(sizes=(8,))`
and is left out elsewhere; a run that skips, or that finds no test, fails.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import partial

import mpi4py
import pytest

mpi4py.rc.thread_level = "serialized"
import mpi4py.MPI  # noqa: E402, F401 - before the program does, which would end MPI with the first engine that closes

from dllama_py.transport.comm import Comm  # noqa: E402
from dllama_py.transport.environment import launched_rank, launched_size  # noqa: E402

TESTS_FAILED = 1
USUAL_SIZES = (1, 2, 4)


@pytest.fixture(scope="session")
def comm() -> Comm:
    """The world of all ranks."""
    from dllama_py.transport.mpi import MpiComm

    return MpiComm()


@pytest.fixture(autouse=True)
def _in_step(request: pytest.FixtureRequest) -> Iterator[None]:
    """No rank runs ahead into the next test, so a failure is reported before others could time out on it."""
    comm: Comm = request.getfixturevalue("comm")
    comm.barrier()
    yield


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """A temporary folder for each rank: in pytest's own they clean up behind each other's backs."""
    if config.getoption("--with-mpi"):
        folder = tempfile.mkdtemp(prefix=f"dllama-rank{_rank()}-")
        config.option.basetemp = folder
        config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """One rank's dots and summary are enough; a failing rank speaks through standard error."""
    if config.getoption("--with-mpi") and _rank():
        config.get_terminal_writer()._file = open(os.devnull, "w")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--with-mpi"):
        return
    size = _size()
    wrong_size = [item for item in items if size not in _sizes(item)]
    if wrong_size:
        config.hook.pytest_deselected(items=wrong_size)
        items[:] = [item for item in items if item not in wrong_size]


def _sizes(item: pytest.Item) -> tuple[int, ...]:
    mark = item.get_closest_marker("mpi")
    return mark.kwargs.get("sizes", USUAL_SIZES) if mark else USUAL_SIZES


def _rank() -> int:
    return launched_rank(os.environ) or 0


def _size() -> int:
    return launched_size(os.environ) or 1


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed and _size() > 1:
        from mpi4py import MPI

        sys.stderr.write(f"\nrank {_rank()} failed {report.nodeid} ({report.when})\n{report.longreprtext}\n")
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(TESTS_FAILED)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not session.config.getoption("--with-mpi"):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    outcomes = {name: len(reporter.stats.get(name, [])) for name in ("passed", "skipped", "xfailed")}
    if not outcomes["passed"] or outcomes["skipped"] or outcomes["xfailed"]:
        sys.stderr.write(f"mpi tests must all run, but there were {outcomes}\n")
        session.exitstatus = TESTS_FAILED
