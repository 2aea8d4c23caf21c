# python -m pytest tests/transport/test_failure.py
import pytest

from dllama_py.errors import ClusterError, InputError, UsageError
from dllama_py.transport import failure
from dllama_py.transport.comm import Comm, PeerLost, SoloComm
from dllama_py.transport.failure import AgreedExit, AgreedFailure, abort_on_exception, agreed
from dllama_py.transport.hosts import Host
from tests.support.threads import run_ranks

NO_MEMORY = (
    "out of memory; use more ranks, or a smaller --max-seq-len or --chunk (docs/troubleshooting.md#out-of-memory)"
)


class Aborting(SoloComm):
    """Two ranks in name; remembers the code of its abort."""

    rank, size = 1, 2

    def __init__(self) -> None:
        self.hosts = (Host.named("attic"), Host.named("cellar"))

    def abort(self, code: int) -> None:  # type: ignore[override]
        self.code = code


@pytest.mark.parametrize(
    ("error", "code", "first_line"),
    [
        (UsageError("no room"), 2, "rank 1 on cellar: no room"),
        (ClusterError("no answer"), 3, "rank 1 on cellar: no answer"),
        (PeerLost("silence"), 3, "rank 1 on cellar: silence"),
        (MemoryError(), 3, f"rank 1 on cellar: {NO_MEMORY}"),
        (OSError(28, "No space left on device"), 3, "rank 1 on cellar: input or output: No space left on device"),
        (OSError(13, "Permission denied", "x.m"), 2, "rank 1 on cellar: x.m: Permission denied"),
        (KeyError("q"), 1, "rank 1 on cellar: KeyError('q')"),
    ],
)
def test_an_exception_ends_all_ranks(
    error: Exception,
    code: int,
    first_line: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failure, "PATIENCE_S", 0)
    monkeypatch.setattr(failure, "STAGGER_S", 0)
    comm = Aborting()
    with abort_on_exception(comm):
        raise error
    told = capsys.readouterr().err.splitlines()[1:]  # on a line of its own
    assert (comm.code, told[0]) == (code, first_line)
    assert ("Traceback (most recent call last):" in told) == isinstance(error, KeyError)


@pytest.mark.parametrize(
    ("reason", "code", "told"), [(5, 5, ""), (None, 0, ""), ("no such model", 1, "no such model\n")]
)
def test_a_rank_that_leaves_alone_ends_all(
    reason: int | str | None, code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    comm = Aborting()
    with abort_on_exception(comm):
        raise SystemExit(reason)
    assert (comm.code, capsys.readouterr().err) == (code, told)


def test_what_all_ranks_agreed_on_passes() -> None:
    with pytest.raises(AgreedExit), abort_on_exception(Aborting()):
        raise AgreedExit(2, "rank 0 on attic: no such model")


def test_in_a_world_of_one_exceptions_pass() -> None:
    with pytest.raises(KeyError), abort_on_exception(SoloComm()):
        raise KeyError("q")


@pytest.mark.parametrize("failing", [[0], [2], [1, 3], [0, 1, 2, 3]])
def test_the_lowest_failing_rank_explains_and_the_others_leave(failing: list[int]) -> None:
    def work(comm: Comm) -> str:
        try:
            with agreed(comm):
                if comm.rank in failing:
                    raise InputError(f"rank {comm.rank} cannot read")
        except AgreedFailure as failure:
            return str(failure.error)
        except SystemExit as end:
            return f"exit {end.code}"
        return "goes on"

    wanted = ["exit 2"] * 4
    wanted[failing[0]] = f"rank {failing[0]} cannot read"
    assert run_ranks(4, work) == wanted


def test_a_name_that_is_no_unicode_is_told_all_the_same() -> None:
    def work(comm: Comm) -> str:
        try:
            with agreed(comm):
                if comm.rank == 0:
                    raise InputError("bad\udcff.gguf: cannot be read")
        except AgreedFailure:
            return "told"
        except AgreedExit as end:
            return str(end.error)
        return "goes on"

    assert run_ranks(2, work)[1].endswith(r"bad\udcff.gguf: cannot be read")


def test_without_failure_all_go_on() -> None:
    def work(comm: Comm) -> bool:
        with agreed(comm):
            pass
        return True

    assert run_ranks(4, work) == [True] * 4
