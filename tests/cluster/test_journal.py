# python -m pytest tests/cluster/test_journal.py
from pathlib import Path

import pytest

from dllama_py.cluster.journal import Journal
from dllama_py.cluster.remote import RemoteFile

A, B = (RemoteFile("me/model", "c", name, n_bytes, name * 64, "") for name, n_bytes in (("a", 250), ("b", 100)))


def journal(folder: Path, *files: RemoteFile) -> Journal:
    return Journal(folder / "journal", files or (A, B), 100)


def test_ranges_lie_one_behind_the_other(tmp_path: Path) -> None:
    ranges = journal(tmp_path).ranges
    assert [(each.file.name, each.start, each.stop, each.offset) for each in ranges] == [
        ("a", 0, 100, 0),
        ("a", 100, 200, 100),
        ("a", 200, 250, 200),
        ("b", 0, 100, 250),
    ]


def test_what_was_saved_is_recalled(tmp_path: Path) -> None:
    first = journal(tmp_path)
    first.ranges[1].done, first.ranges[3].done = 40, 100
    first.save()
    second = journal(tmp_path)
    second.recall()
    assert [each.missing_bytes for each in second.ranges] == [100, 60, 50, 0]
    assert (second.done_bytes, second.total_bytes) == (140, 350)
    second.forget(B)
    assert second.done_bytes == 40
    assert [path.name for path in tmp_path.iterdir()] == ["journal"]


def test_of_other_files_nothing_is_recalled(tmp_path: Path) -> None:
    first = journal(tmp_path, A)
    first.ranges[0].done = 10
    first.save()
    second = journal(tmp_path, B)
    second.recall()
    assert second.done_bytes == 0


@pytest.mark.parametrize(
    "done", ["[1, 2]", "[1, 2, 3, null]", "[1, 2, 3, Infinity]", "7", '"1234"', "[[1], 2, 3, 4]", "[" * 99_999]
)
def test_a_damaged_journal_is_none(tmp_path: Path, done: str) -> None:
    journal(tmp_path).save()
    text = (tmp_path / "journal").read_text().replace("[0, 0, 0, 0]", done)
    assert done in text
    (tmp_path / "journal").write_text(text)
    recalled = journal(tmp_path)
    recalled.recall()
    assert recalled.done_bytes in (0, 10)  # "1234" reads as four numbers


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "3", '{"of": 1, "done": []}', "\0"])
def test_no_journal_at_all(tmp_path: Path, text: str) -> None:
    (tmp_path / "journal").write_text(text)
    recalled = journal(tmp_path)
    recalled.recall()
    assert recalled.done_bytes == 0


def test_more_than_a_range_holds_is_cut(tmp_path: Path) -> None:
    first = journal(tmp_path)
    first.ranges[0].done, first.ranges[1].done = 1000, -5
    first.save()
    second = journal(tmp_path)
    second.recall()
    assert [each.done for each in second.ranges] == [100, 0, 0, 0]
