# python -m pytest tests/kernels/test_candidates.py
"""Candidates and sums of parts of a vocabulary, against sorting and against one float at a time."""

import numpy as np
import pytest

from dllama_py.blocks import Floats
from dllama_py.kernels import keys, reference
from dllama_py.kernels.candidates import CHUNK, find_candidates, merge_candidates
from dllama_py.kernels.team import Team
from tests.kernels.drive import run, words
from tests.support.known import borders, key

N_SHARES = 8


def found(
    team: Team, logits: Floats, n_candidates: int, n_tokens: list[int], inverse: list[float], n_ranks: int = 1
) -> list[tuple[np.ndarray, np.ndarray]]:
    """float32 [T, V] -> of each rank the sorted keys [T, C] and (largest, sum) [T, shares, 2]."""
    n_rows, n_vocab = logits.shape
    shares, of_rank = borders(n_vocab, N_SHARES), N_SHARES // n_ranks
    answers = []
    for rank in range(n_ranks):
        own = shares[rank * of_rank : (rank + 1) * of_rank + 1]
        here = np.full((n_rows, own[-1] - own[0] + 16), 1e9, np.float32)
        here[:, :-16] = logits[:, own[0] : own[-1]]
        lists = np.zeros((n_rows, team.n_threads, keys.MOST_CANDIDATES), np.int64)
        out = np.zeros((n_rows, n_candidates + 2 * of_rank), np.int64)
        shared = {"n_rows": words(n_rows), "n_candidates": words(n_candidates), "n_shares": of_rank}
        find = find_candidates(
            **shared,
            n_tokens=words(*n_tokens),
            inverse_temperatures=np.array(inverse, np.float32),
            logits=here,
            stride=here.strides[0],
            first_id=own[0],
            borders=words(*[border - own[0] for border in own]),
            lists=lists,
            out=out,
        )
        run(team, find, merge_candidates(**shared, lists=lists, out=out))
        floats = np.ascontiguousarray(out[:, n_candidates:]).view(np.float64)
        answers.append((np.sort(out[:, :n_candidates])[:, ::-1], floats.reshape(n_rows, of_rank, 2)))
    return answers


def samples(n_vocab: int) -> Floats:
    """Rows of all kinds: spread out, ties, ascending, descending, mostly barred, all barred, zeros of both signs."""
    random = np.random.default_rng(1)
    rows = random.normal(0, 4, (7, n_vocab)).astype(np.float32)
    rows[1] = np.round(rows[1])
    rows[2], rows[3] = np.sort(rows[2]), np.sort(rows[3])[::-1]
    rows[4, 5:] = rows[5] = -np.inf
    rows[6] = np.where(random.random(n_vocab) < 0.5, np.float32(-0.0), np.float32(0.0))
    return rows


@pytest.mark.parametrize("n_vocab", [31, 128, 1000, 9001])
@pytest.mark.parametrize("n_candidates", [1, 5, 256])
def test_the_best_are_those_of_a_sort(team: Team, n_vocab: int, n_candidates: int) -> None:
    rows, n_tokens = samples(n_vocab), [n_vocab, n_vocab, n_vocab - 9, n_vocab, n_vocab, n_vocab, n_vocab + 50]
    for n_ranks in (1, 2, 8):
        parts = borders(n_vocab, n_ranks)
        for rank, (best, _) in enumerate(found(team, rows, n_candidates, n_tokens, [0] * 7, n_ranks)):
            for row, limit, own in zip(rows, n_tokens, best, strict=True):
                tokens = range(parts[rank], min(parts[rank + 1], limit))
                expected = sorted((key(row[t], t) for t in tokens if row[t] != -np.inf), reverse=True)
                assert own.tolist() == (expected + [keys.NOTHING] * n_candidates)[:n_candidates]


def test_keys_say_what_they_are_made_of() -> None:
    tokens, logits = [0, 151935, 7, 9], [1.5, -2.25, -np.inf, 3e38]
    made = np.array([key(logit, token) for logit, token in zip(logits, tokens, strict=True)])
    assert (keys.ids_of(made).tolist(), keys.logits_of(made).tolist()) == (tokens, np.float32(logits).tolist())
    assert [(keys.id_of(int(k)), keys.logit_of(int(k))) for k in made] == list(
        zip(tokens, np.float32(logits), strict=True)
    )
    assert keys.logits_of(np.array([keys.NOTHING])) == -np.inf


@pytest.mark.parametrize("logit", [0.0, -1e-45, 3e38, -3e38, np.inf, -np.inf, np.nan])
def test_a_key_says_whether_its_logit_is_finite(logit: float) -> None:
    assert keys.is_finite(key(logit, 7)) == np.isfinite(logit)


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf])
@pytest.mark.parametrize("at", [0, 17, 999])
def test_what_is_no_number_is_above_all(team: Team, bad: float, at: int) -> None:
    rows = samples(1000)[:1]
    rows[0, [at, 500]] = bad, bad
    ((best, _),) = found(team, rows, 3, [1000], [1.0])
    assert keys.ids_of(best[0, :2]).tolist() == sorted([at, 500])
    assert not np.isfinite(keys.logits_of(best[0, :2])).any()


def naive_sum(logits: Floats, inverse: float) -> tuple[float, float]:
    largest, total = logits.max(initial=np.float32(-np.inf)), 0.0
    for start in range(0, len(logits), CHUNK):
        lanes = np.zeros(16, np.float32)
        for i, logit in enumerate(logits[start : start + CHUNK]):
            with np.errstate(over="ignore", invalid="ignore"):
                x = np.float32(logit - largest) * np.float32(inverse)
            lanes[i % 16] += reference.exp_of(x) if x >= -87 else np.float32(0)
        for half in (8, 4, 2, 1):
            lanes = lanes[:half] + lanes[half : 2 * half]
        total += float(lanes[0])
    return float(largest), total


@pytest.mark.parametrize("n_vocab", [31, 9001])
def test_sums_are_those_of_one_float_at_a_time_on_any_number_of_ranks(team: Team, n_vocab: int) -> None:
    rows, inverse = samples(n_vocab)[:5], [1.0, 1.25, 0.5, 1e38, 0.001]
    n_tokens = [n_vocab, n_vocab, n_vocab - 9, n_vocab, n_vocab]
    expected = [
        [naive_sum(row[start : min(stop, n)], i) for start, stop in zip(parts, parts[1:], strict=False)]
        for row, n, i in zip(rows, n_tokens, inverse, strict=True)
        for parts in [borders(n_vocab, N_SHARES)]
    ]
    for n_ranks in (1, 2, 4, 8):
        sums = np.concatenate([shares for _, shares in found(team, rows, 1, n_tokens, inverse, n_ranks)], axis=1)
        assert sums.tolist() == np.array(expected).tolist()


def test_nothing_is_done_where_logits_are_wanted(team: Team) -> None:
    rows = samples(100)[:1]
    (_, shares) = found(team, rows, 0, [100], [1.0])[0]
    assert not shares.any()
