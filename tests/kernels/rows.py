"""What a step of several rows of one sequence takes, by kernel: python -m tests.kernels.rows [--positions 168]

The qwen3_0.6b shape in q40, random weights, this process alone with two threads; milliseconds, the best of five steps.
"""

import argparse
from collections import Counter

from dllama_py.blocks import FloatType
from dllama_py.boot import Engine, Watch, open_engine
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.step import Row, Work
from dllama_py.formats.shapes import shape_named
from dllama_py.formats.synthetic import SyntheticCheckpoint
from dllama_py.progress import unwatched
from dllama_py.settings import EngineSettings
from dllama_py.stamps import Recording
from dllama_py.transport.comm import SoloComm

TRIES = 5
COUNTS = (1, 2, 4, 8, 16)
CHUNK = 64


def measure(n_positions: int) -> dict[int, tuple[float, Counter[str]]]:
    """Of each number of rows the milliseconds at the root, and those of each kernel."""
    recording, best = Recording(), dict[int, tuple[float, Counter[str]]]()
    checkpoint = SyntheticCheckpoint(shape_named("qwen3_0.6b", None), FloatType.Q40)
    watch = Watch(lambda plan: None, unwatched, recording)
    with open_engine(
        EngineSettings(n_threads=2), SoloComm(), lambda: checkpoint, lambda line: None, watch=watch
    ) as engine:
        assert engine is not None
        for start in range(0, n_positions, CHUNK):
            rows = [Row(13 + i, 0, i) for i in range(start, min(start + CHUNK, n_positions))]
            engine.runner.forward(Work(rows, range(0)))
        for n_rows in COUNTS * TRIES:
            found = _step(engine, recording, n_positions, n_rows)
            best[n_rows] = min(best.get(n_rows, found), found, key=lambda times: times[0])
    return best


def _step(engine: Engine, recording: Recording, n_positions: int, n_rows: int) -> tuple[float, Counter[str]]:
    rows = [Row(13 + i, 0, n_positions + i) for i in range(n_rows)]
    ask = SamplerSettings().ask(engine.orders.config.vocab_size)
    step = engine.runner.forward(Work(rows, range(n_rows), [ask] * n_rows))
    run, times = recording.runs[-1], Counter[str]()
    for number, work in enumerate(recording.programs[run.program]):
        begin, end = run.stamps[:, number, 0], run.stamps[:, number, 1]
        times[work.kernel] += float((end - begin).mean()) / 1e6
    return 1000 * step.cost.seconds, times


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--positions", type=int, default=168)
    steps = measure(parser.parse_args().positions)
    print(f"{'rows':24}", *(f"{n:7}" for n in COUNTS))
    print(f"{'step':24}", *(f"{steps[n][0]:7.1f}" for n in COUNTS))
    for kernel in sorted(steps[1][1]):
        print(f"{kernel:24}", *(f"{steps[n][1][kernel]:7.2f}" for n in COUNTS))
