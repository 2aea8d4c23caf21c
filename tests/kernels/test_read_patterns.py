# python -m pytest tests/kernels/test_read_patterns.py
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dllama_py.blocks import FloatType
from dllama_py.kernels import read_patterns, reference
from dllama_py.kernels.memory import read_stream
from dllama_py.kernels.prefetch import STREAM, STREAMS, USUAL, ReadPattern, pattern_words
from dllama_py.kernels.read_patterns import CANDIDATES, FILE, best_pattern, memory_bytes, settle_patterns
from dllama_py.kernels.team import Team
from tests.kernels import drive
from tests.kernels.samples import activations, same_bits, weights

N_OUTPUTS = 11 * 16  # of two threads one has 6 groups, of which 4 are read side by side
KINDS = [FloatType.Q40, FloatType.Q4K, FloatType.F16]  # without and with headers, and floats
ZEN_4 = {8192: 25.0, 4096: 21.0, 2048: 33.0, 1024: 33.0, 512: 35.0, 0: 34.0}  # GB/s of q40
SAPPHIRE_RAPIDS = {8192: 10.6, 4096: 10.3, 2048: 10.2, 1024: 10.0, 512: 9.2, 0: 8.7}
FAST = ReadPattern(512, 1)


@pytest.fixture
def usual() -> Iterator[None]:
    """Nothing has been settled, before and after."""
    settled = set(read_patterns._settled)
    kept = {reader: pattern_words(reader).copy() for reader in ("q40", "q80", STREAM)}
    read_patterns._settled.clear()
    yield
    read_patterns._settled.clear()
    read_patterns._settled.update(settled)
    for reader, words in kept.items():
        pattern_words(reader)[:] = words


@pytest.fixture
def measurements(usual: None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The readers that were measured, all of which found FAST."""
    found: list[str] = []

    def measured(readers: list[str]) -> dict[str, ReadPattern]:
        found.extend(readers)
        return dict.fromkeys(readers, FAST)

    monkeypatch.setattr(read_patterns, "measured", measured)
    return found


@pytest.mark.parametrize("pattern", CANDIDATES, ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.label)
def test_no_pattern_changes_a_bit(team: Team, usual: None, kind: FloatType, pattern: ReadPattern) -> None:
    words = pattern_words(kind.label)
    before = words.copy()
    words[:] = pattern
    data, x = weights(kind, N_OUTPUTS, 256), activations(1, 256)
    leaves = [0, 3, 3, 8]
    try:
        assert same_bits(drive.matmul(team, kind, data, x, leaves), reference.matmul(data, kind, x, np.array(leaves)))
    finally:
        words[:] = before


@pytest.mark.parametrize("n_streams", [1, STREAMS])
def test_experts_of_one_row_are_the_same_side_by_side(team: Team, usual: None, n_streams: int) -> None:
    kind = FloatType.Q40
    pattern_words(kind.label)[:] = ReadPattern(512, n_streams)
    data = np.stack([weights(kind, N_OUTPUTS, 256, seed=expert) for expert in range(3)])
    x = activations(1, 256)
    each, mixed = drive.mixture(team, kind, data, x, [[(0, 0.75), (2, 0.25)]])
    parts = [reference.matmul(data[expert], kind, x, np.array([0, 4, 8]))[:, 0] for expert in (0, 2)]
    assert same_bits(mixed[:, 0], reference.mix(np.stack(parts), np.array([0.75, 0.25], np.float32)))
    for place, expert in enumerate((0, 2)):
        assert same_bits(each[0, place], reference.matmul(data[expert], kind, x, np.array([0, 8]))[0, 0])


@pytest.mark.parametrize("n_streams", [1, STREAMS])
@pytest.mark.parametrize("position", [0, 256 * 3, 256 * 8 + 255, 256 * 21 - 1])
def test_every_byte_is_read_by_every_pattern(team: Team, n_streams: int, position: int) -> None:
    x, out = np.zeros(256 * 21, np.uint8), np.zeros((team.n_threads, 16), np.int32)
    x[position] = 1
    drive.run(team, read_stream(x=x, n_bytes=x.nbytes, out=out, pattern=drive.words(0, n_streams)))
    assert (out[:, 0] != 0).any()


@pytest.mark.parametrize(
    ("gb_s", "ahead_bytes"),
    [(ZEN_4, 512), (SAPPHIRE_RAPIDS, 8192), ({8192: 10.0, 512: 10.2, 0: 10.1}, 8192), ({8192: 10.0, 512: 10.4}, 512)],
    ids=["zen_4", "sapphire_rapids", "like_ones", "better"],
)
def test_the_fastest_is_chosen_and_of_like_ones_the_usual(gb_s: dict[int, float], ahead_bytes: int) -> None:
    rates = {ReadPattern(ahead, 1): [rate, rate / 9, 1.01 * rate, 1.02 * rate] for ahead, rate in gb_s.items()}
    assert best_pattern(rates) == (ahead_bytes, 1)


def test_neither_luck_nor_what_others_disturb_decides() -> None:
    rates = {USUAL: [10.0, 10.1, 0.5, 0.5, 0.5, 0.5, 10.2], FAST: [9.0, 9.0, 9.0, 30.0, 9.0, 9.0, 30.0]}
    assert best_pattern(rates) == USUAL


def test_what_one_process_measures_the_others_read(measurements: list[str], tmp_path: Path) -> None:
    settle_patterns(["q40"], tmp_path)
    assert (tuple(pattern_words("q40")), measurements) == (FAST, ["q40"])
    pattern_words("q40")[:] = USUAL
    read_patterns._settled.clear()  # as in another process
    settle_patterns(["q40", STREAM], tmp_path)
    assert (tuple(pattern_words("q40")), measurements) == (FAST, ["q40", STREAM])
    settle_patterns(["q40", STREAM], tmp_path)
    assert measurements == ["q40", STREAM]


def test_cpu_models_that_share_a_home_are_measured_apart(
    measurements: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for model in ("one", "other"):
        monkeypatch.setattr(read_patterns, "_cpu_model", lambda model=model: model)
        read_patterns._settled.clear()
        settle_patterns(["q40"], tmp_path)
    assert measurements == ["q40", "q40"]
    assert json.loads((tmp_path / FILE).read_text()).keys() == {"one", "other"}


def test_a_folder_that_cannot_be_written_is_no_error(measurements: list[str], tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    settle_patterns(["q40"], absent)
    assert (tuple(pattern_words("q40")), measurements, absent.exists()) == (FAST, ["q40"], False)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"%": {"q40": [3, 1]}}', '{"%": {"q40": 5}}', '{"%": [1]}', "[" * 100_000]
)
def test_a_spoiled_file_is_measured_anew(measurements: list[str], tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text.replace("%", read_patterns._cpu_model()))
    settle_patterns(["q40"], tmp_path)
    assert (tuple(pattern_words("q40")), measurements) == (FAST, ["q40"])
    read_patterns._settled.clear()
    settle_patterns(["q40"], tmp_path)
    assert measurements == ["q40"]


def test_a_measurement_gives_a_candidate_and_leaves_the_usual_pattern(usual: None) -> None:
    pattern_words("q80")[:] = USUAL
    found = read_patterns.measured(["q80", STREAM])
    assert found.keys() == {"q80", STREAM}
    assert set(found.values()) <= set(CANDIDATES)
    assert tuple(pattern_words("q80")) == USUAL


def test_the_memory_that_is_read_is_larger_than_the_caches() -> None:
    assert [memory_bytes(mb * 1_000_000) for mb in (1, 32, 105, 1000)] == [
        32_000_000,
        64_000_000,
        210_000_000,
        256_000_000,
    ]
