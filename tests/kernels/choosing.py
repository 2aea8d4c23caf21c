"""python -m tests.kernels.choosing: what choosing one of 151,936 tokens costs on one thread and rank, once logits are
there: kernels, then the sampler. The logits are normal with a deviation of 8, as clear as in a text, or of 3: then the
nucleus has more tokens than there are candidates, and all logits are looked at.
"""

import time
from collections.abc import Callable

import numpy as np

from dllama_py.engine.sampler import SamplerSettings, sample
from dllama_py.engine.scores import Scores
from dllama_py.kernels.candidates import find_candidates, merge_candidates
from dllama_py.kernels.keys import MOST_CANDIDATES
from dllama_py.kernels.program import Program
from dllama_py.kernels.team import Team
from tests.kernels.drive import words
from tests.support.known import N_SHARES, AllHere, borders

N_VOCAB = 151_936
TRIES = 200
NUCLEUS = SamplerSettings(temperature=0.8, top_p=0.9)
WISHES = {
    "greedy": (SamplerSettings(), 8),
    "top-k 40": (SamplerSettings(temperature=0.8, top_k=40), 8),
    "top-p 0.9": (NUCLEUS, 8),
    "top-p 0.9, unclear": (NUCLEUS, 3),
    "neither": (SamplerSettings(temperature=0.8), 8),
}


def best_seconds(settings: SamplerSettings, deviation: float) -> tuple[float, float]:
    """Of the kernels and of the sampler."""
    logits = np.random.default_rng(1).normal(0, deviation, (1, N_VOCAB + 16)).astype(np.float32)
    ask = settings.ask(N_VOCAB)
    lists = np.zeros((1, 1, MOST_CANDIDATES), np.int64)
    out = np.zeros((1, ask.n_candidates + 2 * N_SHARES), np.int64)
    shared = {"n_rows": words(1), "n_candidates": words(ask.n_candidates), "n_shares": N_SHARES}
    find = find_candidates(
        **shared,
        n_tokens=words(N_VOCAB),
        inverse_temperatures=np.array([ask.inverse_temperature], np.float32),
        logits=logits,
        stride=logits.strides[0],
        first_id=0,
        borders=words(*borders(N_VOCAB, N_SHARES)),
        lists=lists,
        out=out,
    )
    program, team = Program([find, merge_candidates(**shared, lists=lists, out=out)]), Team(1)
    kernels_s = best(lambda: team.run(program))
    shares = out[0, ask.n_candidates :].view(np.float64).reshape(-1, 2)
    scores = Scores(ask, out[:, : ask.n_candidates], shares, AllHere(logits[0, :N_VOCAB], ask))
    return kernels_s, best(lambda: sample(scores, settings, 0))


def best(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(TRIES):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def main() -> None:
    print("settings               kernels     sampler")
    for name, (settings, deviation) in WISHES.items():
        kernels_s, sampler_s = best_seconds(settings, deviation)
        print(f"{name:20}{1e3 * kernels_s:7.3f} ms{1e3 * sampler_s:9.3f} ms")


if __name__ == "__main__":
    main()
