"""What every rank recorded, brought together at the root."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from dllama_py.profiling.clock import Reading, on_root_clock
from dllama_py.stamps import Role, Run, Work
from dllama_py.transport.comm import Buffer, Comm


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a run that is one step: what it is, and its runs by number, [first, end)."""

    phase: str  # prefill or decode
    n_rows: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class RankTimeline:
    """One rank: its programs and their runs, stamps on the root's clock."""

    host: str
    n_threads: int
    programs: Sequence[Sequence[Work]]
    runs: Sequence[Run]

    def works(self, run: Run) -> Sequence[Work]:
        """What the instructions of a run had to do."""
        return self.programs[run.program]


def gather(comm: Comm, own: RankTimeline, before: Sequence[Reading], after: Sequence[Reading]) -> list[RankTimeline]:
    """All ranks call it together. -> at the root the timelines of all on its clock, elsewhere nothing."""
    facts = {
        "host": own.host,
        "n_threads": own.n_threads,
        "programs": [[asdict(work) for work in works] for works in own.programs],
        "runs": [(run.program, run.counts, run.stamps.shape) for run in own.runs],
    }
    texts = _gather_bytes(comm, np.frombuffer(json.dumps(facts).encode(), np.uint8))
    stamps = _gather_bytes(comm, _joined(own.runs).view(np.uint8))
    return [
        _timeline(json.loads(text.tobytes()), on_root_clock(stamp.view(np.int64), *readings))
        for text, stamp, readings in zip(texts, stamps, zip(before, after, strict=True), strict=True)
    ]


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


def _timeline(facts: dict[str, object], stamps: Buffer) -> RankTimeline:
    runs, used = [], 0
    for program, counts, shape in facts["runs"]:  # type: ignore[attr-defined]
        size = int(np.prod(shape))
        runs.append(Run(program, tuple(counts), stamps[used : used + size].reshape(shape)))
        used += size
    programs = [
        [Work(**{**work, "role": Role(work["role"])}) for work in works]
        for works in facts["programs"]  # type: ignore[attr-defined]
    ]
    return RankTimeline(str(facts["host"]), int(facts["n_threads"]), programs, runs)  # type: ignore[call-overload]
