"""What every rank recorded, brought together at the root and cut into steps.

All ranks compute the same steps in the same order, so steps are told apart by counting: one begins with rows that
arrive, or with the program of a model, and what a rank sends on belongs to it.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from dllama_py.profiling.clock import Reading, on_root_clock
from dllama_py.stamps import Arrival, Recording, Role, Run, Work
from dllama_py.transport.comm import Buffer, Comm
from dllama_py.transport.hosts import Host

_PLACES = {Role.ARRIVING: 0, Role.LEAVING: 2}  # of programs in a step; 1: that of the layers
LAYERS = 1
PREFILL, DECODE = "prefill", "decode"


@dataclass(frozen=True, slots=True)
class Span:
    """A step that was measured: what it is, its rows, and its number, 0 the first that was ever made."""

    phase: str  # PREFILL or DECODE
    n_rows: int
    step: int


@dataclass(frozen=True, slots=True)
class RankTimeline:
    """One rank: its programs and their runs, stamps on the root's clock, and the messages of other stages to it."""

    host: Host
    n_threads: int
    programs: Sequence[Sequence[Work]]
    runs: Sequence[Run]
    arrivals: Sequence[Arrival] = ()
    steps: Sequence[Sequence[Run]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", cut_steps(self.programs, self.runs))

    def works(self, run: Run) -> Sequence[Work]:
        """What the instructions of a run had to do."""
        return self.programs[run.program]

    def runs_of(self, span: Span) -> Sequence[Run]:
        """Of a step, in their order; a rank without layers has none."""
        return self.steps[span.step] if span.step < len(self.steps) else ()


def cut_steps(programs: Sequence[Sequence[Work]], runs: Sequence[Run]) -> list[list[Run]]:
    """The runs of every step; measuring the memory belongs to none."""
    steps: list[list[Run]] = []
    last = _PLACES[Role.LEAVING]
    for run in runs:
        role = programs[run.program][0].role
        if role is Role.MEMORY:
            continue
        place = _PLACES.get(role, LAYERS)
        if place <= last:
            steps.append([])
        steps[-1].append(run)
        last = place
    return steps


def gather(
    comm: Comm, n_threads: int, recording: Recording, before: Sequence[Reading], after: Sequence[Reading]
) -> list[RankTimeline]:
    """All ranks call it together. -> at the root the timelines of all on its clock, elsewhere nothing."""
    facts = {
        "n_threads": n_threads,
        "programs": [[asdict(work) for work in works] for works in recording.programs],
        "runs": [(run.program, run.counts, run.stamps.shape) for run in recording.runs],
        "arrivals": [asdict(arrival) for arrival in recording.arrivals],
    }
    texts = _gather_bytes(comm, np.frombuffer(json.dumps(facts).encode(), np.uint8))
    stamps = _gather_bytes(comm, _joined(recording.runs).view(np.uint8))
    clocks = [_Clock(*readings) for readings in zip(before, after, strict=True)]
    return [
        _timeline(host, json.loads(text.tobytes()), clock.shown(stamp.view(np.int64)), clock, clocks)
        for host, text, stamp, clock in zip(comm.hosts, texts, stamps, clocks, strict=False)
    ]


@dataclass(frozen=True, slots=True)
class _Clock:
    """A rank's, by what it showed before and after."""

    before: Reading
    after: Reading

    def shown(self, stamps: Buffer) -> Buffer:
        """What the root's clock would have shown."""
        return on_root_clock(stamps, self.before, self.after)


def _joined(runs: Sequence[Run]) -> Buffer:
    return np.concatenate([np.zeros(0, np.int64), *(run.stamps.reshape(-1) for run in runs)])


def _gather_bytes(comm: Comm, own: Buffer) -> list[Buffer]:
    """Of every rank at the root, nothing elsewhere; lengths may differ."""
    is_root = comm.rank == 0
    lengths = [np.zeros(1, np.int64) for _ in range(comm.size)] if is_root else None
    comm.gather(np.array([own.nbytes], np.int64), lengths)
    parts = None if lengths is None else [np.zeros(length[0], np.uint8) for length in lengths]
    comm.gather(own, parts)
    return parts or []


def _timeline(
    host: Host, facts: dict[str, object], stamps: Buffer, clock: _Clock, clocks: Sequence[_Clock]
) -> RankTimeline:
    runs, used = [], 0
    for program, counts, shape in facts["runs"]:  # type: ignore[attr-defined]
        size = int(np.prod(shape))
        runs.append(Run(program, tuple(counts), stamps[used : used + size].reshape(shape)))
        used += size
    programs = [
        [Work(**{**work, "role": Role(work["role"])}) for work in works]
        for works in facts["programs"]  # type: ignore[attr-defined]
    ]
    arrivals = [_arrival(Arrival(**each), clock, clocks) for each in facts["arrivals"]]  # type: ignore[attr-defined]
    return RankTimeline(host, int(facts["n_threads"]), programs, runs, arrivals)  # type: ignore[call-overload]


def _arrival(own: Arrival, clock: _Clock, clocks: Sequence[_Clock]) -> Arrival:
    """On the root's clock."""
    asked_ns, arrived_ns = clock.shown(np.array([own.asked_ns, own.arrived_ns])).tolist()
    (sent_ns,) = clocks[own.source].shown(np.array([own.sent_ns])).tolist()
    return Arrival(own.source, own.step, own.n_bytes, sent_ns, asked_ns, arrived_ns)
