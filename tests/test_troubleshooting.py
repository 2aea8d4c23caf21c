# python -m pytest tests/test_troubleshooting.py
"""Messages name their row of docs/troubleshooting.md: rows and names fit each other, and real messages have theirs."""

import re
import struct
from pathlib import Path

import pytest

from dllama_py import troubleshooting
from dllama_py.cli import main
from dllama_py.cluster import watcher
from dllama_py.errors import ClusterError, DllamaError, InputError, machine_explained
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.formats.soundness import refuse_broken
from dllama_py.memory_plan import plan_memory, refuse_what_does_not_fit
from dllama_py.sharding.plan import make_plan
from dllama_py.transport.versions import compare
from dllama_py.transport.world import check_size
from dllama_py.troubleshooting import ROWS, row_of, with_row
from tests.checkpoints import change_config, own_folder, tiny_config, tiny_model_file
from tests.test_memory_plan import GB, hosts, orders

PAGE = Path(__file__).parents[1] / "docs" / "troubleshooting.md"


def rows() -> dict[str, str]:
    """Anchor -> the words of the first column."""
    found = re.findall(r'^\| <a id="([a-z0-9-]+)"></a>(.*?) \| ', PAGE.read_text(), re.MULTILINE)
    assert len(found) == PAGE.read_text().count("<a id=") == len(dict(found))
    return {anchor: words.replace("`", "") for anchor, words in found}


def test_every_row_that_is_named_is_there_and_every_anchor_is_named() -> None:
    assert set(rows()) == set(ROWS)


def test_the_words_of_a_row_lead_to_it() -> None:
    assert {row_of(words): row for row, words in rows().items()} == {row: row for row in ROWS}


def cut_short(folder: Path) -> None:
    path = tiny_model_file(folder / "a.m")
    path.write_bytes(path.read_bytes()[:-1])
    open_checkpoint(path)


def pointer(folder: Path) -> None:
    (folder / "a.m").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    open_checkpoint(folder / "a.m")


def one_shard(folder: Path) -> None:
    (folder / "a.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}" + bytes(9))
    open_checkpoint(folder / "a.safetensors")


def changed(folder: Path, **changes: object) -> None:
    change_config(own_folder(folder / "tiny"), **changes)
    open_checkpoint(folder / "tiny")


def not_finite(folder: Path) -> None:
    path = tiny_model_file(folder / "a.m")
    path.write_bytes(path.read_bytes()[:-18] + b"\x00\x7c" + bytes(16))
    refuse_broken(open_checkpoint(path))


def too_much(_: Path) -> None:
    wish, facts = orders(), hosts(GB, GB)
    refuse_what_does_not_fit(plan_memory(wish, facts), wish, facts, False)


def out_of_memory(_: Path) -> None:
    with machine_explained():
        raise MemoryError


@pytest.mark.parametrize(
    ("row", "fail"),
    [
        ("cut-short", cut_short),
        ("not-the-file", pointer),
        ("one-shard", one_shard),
        ("not-supported", lambda folder: changed(folder, model_type="gemma3")),
        ("quantised", lambda folder: changed(folder, quantization_config={"quant_method": "gptq"})),
        ("not-finite", not_finite),
        ("memory", too_much),
        ("out-of-memory", out_of_memory),
        ("rank-counts", lambda _: make_plan(tiny_config(), 3, False)),
        ("two-mpis", lambda _: check_size(1, {"PMI_SIZE": "4"})),
        ("expected-ranks", lambda _: check_size(1, {"DLLAMA_EXPECT_RANKS": "4"})),
        ("versions", lambda _: compare([{"numba": "0.61"}, {"numba": "0.62"}], ["a", "b"])),
    ],
)
def test_real_messages_have_their_row(row: str, fail: object, tmp_path: Path) -> None:
    with pytest.raises(DllamaError) as caught:
        fail(tmp_path)  # type: ignore[operator]
    assert with_row(caught.value) == f"{caught.value} (docs/troubleshooting.md#{row})"


def test_a_message_without_a_row_stays_as_it_is() -> None:
    assert with_row(InputError("a: byte 3 is no UTF-8")) == "a: byte 3 is no UTF-8"


def test_without_the_pages_it_says_whose_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(troubleshooting, "PAGE", "/nowhere/troubleshooting.md")
    told = with_row(ClusterError("lost touch with another rank during a step: EOF"))
    assert told.endswith("EOF (docs/troubleshooting.md#lost-touch of the project)")


def test_the_program_shows_it_in_the_same_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DLLAMA_HOME", str(tmp_path))
    assert main(["inference", "--prompt", "a"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("python launch.py smollm2_135m (docs/troubleshooting.md#no-model)")


def test_the_watcher_shows_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "READING_S", 0)
    watcher._tell_death(9)
    watcher._tell_death(4)
    rows = re.findall(r"\(docs/troubleshooting.md#(.*)\)$", capsys.readouterr().err, re.MULTILINE)
    assert rows == ["killed-9", "killed"]
