# python -m pytest tests/cluster/test_fetch.py
import fcntl
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dllama_py.cluster.catalogue import HubGguf, HubParts, KnownModel
from dllama_py.cluster.fetch import Fetched, fetch_known, fetch_repository, is_here, remove
from dllama_py.cluster.hub import Hub
from dllama_py.errors import InputError, UsageError
from dllama_py.progress import unwatched
from tests.support.hub import FakeHub, NoHub, running

A, B, T = (random.Random(seed).randbytes(5000) for seed in range(3))
ANCESTOR = KnownModel("tiny_q40", "Tiny", 10_000, HubParts("me/tiny", ("tiny_aa", "tiny_ab"), "tiny.t"))
GGUF = KnownModel("tiny_gguf", "Tiny", 5000, HubGguf("me/ggufs", "Q8_0"))


@pytest.fixture
def fake() -> Iterator[FakeHub]:
    content = {
        "me/tiny": {"tiny_ab": B, "tiny_aa": A, "tiny.t": T},
        "me/ggufs": {"m-Q8_0.gguf": A, "m-F16-00001-of-00002.gguf": A, "m-F16-00002-of-00002.gguf": B},
        "me/folder": {"config.json": b"{}", "tokenizer.json": T, "model.safetensors": A, "README.md": b"#"},
    }
    with running(FakeHub(content)) as hub:
        yield hub


def test_parts_and_tokenizer_under_the_names_of_distributed_llama(fake: FakeHub, tmp_path: Path) -> None:
    assert not is_here(ANCESTOR, tmp_path)
    fetched = fetch_known(ANCESTOR, tmp_path, Hub(fake.url), unwatched)
    folder = tmp_path / "tiny_q40"
    assert fetched == Fetched(
        "tiny_q40", folder / "dllama_model_tiny_q40.m", folder / "dllama_tokenizer_tiny_q40.t"
    )  # fmt: skip
    assert fetched.model.read_bytes() == A + B
    assert (folder / "dllama_tokenizer_tiny_q40.t").read_bytes() == T
    assert is_here(ANCESTOR, tmp_path)


def test_a_second_call_needs_no_hub(fake: FakeHub, tmp_path: Path) -> None:
    first = fetch_known(ANCESTOR, tmp_path, Hub(fake.url), unwatched)
    assert fetch_known(ANCESTOR, tmp_path, NoHub(), unwatched) == first


def test_files_of_distributed_llamas_own_launcher_are_taken_over(fake: FakeHub, tmp_path: Path) -> None:
    folder = tmp_path / "tiny_q40"
    folder.mkdir()
    (folder / "dllama_model_tiny_q40.m").write_bytes(A + B)
    (folder / "dllama_tokenizer_tiny_q40.t").write_bytes(T)
    fetch_known(ANCESTOR, tmp_path, Hub(fake.url), unwatched)
    assert fake.bodies_asked() == []


def test_a_file_cut_short_later_is_fetched_again(fake: FakeHub, tmp_path: Path) -> None:
    path = fetch_known(ANCESTOR, tmp_path, Hub(fake.url), unwatched).model
    path.write_bytes(A)
    assert fetch_known(ANCESTOR, tmp_path, Hub(fake.url), unwatched).model.read_bytes() == A + B


def test_a_part_that_the_repository_lacks(fake: FakeHub, tmp_path: Path) -> None:
    del fake.repositories["me/tiny"]["tiny_ab"]
    with pytest.raises(InputError, match="me/tiny has no tiny_ab any more; it holds: tiny_aa, tiny.t"):
        fetch_known(ANCESTOR, tmp_path, Hub(fake.url), unwatched)


def test_a_known_gguf(fake: FakeHub, tmp_path: Path) -> None:
    fetched = fetch_known(GGUF, tmp_path, Hub(fake.url), unwatched)
    assert fetched == Fetched("tiny_gguf", tmp_path / "tiny_gguf" / "m-Q8_0.gguf")
    assert is_here(GGUF, tmp_path)


def test_a_gguf_of_any_repository(fake: FakeHub, tmp_path: Path) -> None:
    fetched = fetch_repository("me/ggufs:q8_0", tmp_path, Hub(fake.url), unwatched)
    assert fetched == Fetched("m-Q8_0", tmp_path / "me--ggufs" / "m-Q8_0.gguf")
    assert fetch_repository("me/ggufs:q8_0", tmp_path, NoHub(), unwatched) == fetched


def test_all_parts_of_a_split_gguf(fake: FakeHub, tmp_path: Path) -> None:
    fetched = fetch_repository("me/ggufs:F16", tmp_path, Hub(fake.url), unwatched)
    assert fetched == Fetched("m-F16", tmp_path / "me--ggufs" / "m-F16-00001-of-00002.gguf")
    assert (tmp_path / "me--ggufs" / "m-F16-00002-of-00002.gguf").read_bytes() == B


def test_files_of_one_name_in_two_folders_are_two_models(fake: FakeHub, tmp_path: Path) -> None:
    fake.repositories["me/ggufs"] = {"a/m-Q4_0.gguf": A, "b/m-Q4_0.gguf": B}
    first, second = (fetch_repository(f"me/ggufs:{x}/m", tmp_path, Hub(fake.url), unwatched).model for x in "ab")
    assert (first, second) == (tmp_path / "me--ggufs/a/m-Q4_0.gguf", tmp_path / "me--ggufs/b/m-Q4_0.gguf")
    assert (first.read_bytes(), second.read_bytes()) == (A, B)
    assert fetch_repository("me/ggufs:a/m", tmp_path, NoHub(), unwatched).model == first


@pytest.mark.parametrize("name", ["../m-Q4_0.gguf", "/m-Q4_0.gguf", "a/../../m-Q4_0.gguf", "m\nrm -Q4_0.gguf"])
def test_a_name_that_no_model_has(fake: FakeHub, tmp_path: Path, name: str) -> None:
    fake.repositories["me/ggufs"] = {name: A}
    with pytest.raises(InputError, match="me/ggufs has a file .*, a name that no model has"):
        fetch_repository("me/ggufs:Q4", tmp_path / "models", Hub(fake.url), unwatched)
    assert fake.bodies_asked() == []


def test_a_folder(fake: FakeHub, tmp_path: Path) -> None:
    fetched = fetch_repository("me/folder", tmp_path, Hub(fake.url), unwatched)
    assert fetched == Fetched("folder", tmp_path / "me--folder")
    shown = sorted(path.name for path in fetched.model.iterdir() if not path.name.startswith("."))
    assert shown == ["config.json", "model.safetensors", "tokenizer.json"]
    assert fetch_repository("me/folder", tmp_path, NoHub(), unwatched) == fetched


@pytest.mark.parametrize("text", ["a/b/c", "/b", "a/", "../x", "a/..", "a/b:", "a b/c"])
def test_what_is_no_repository(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected OWNER/REPO, or OWNER/REPO:FILE"):
        fetch_repository(text, tmp_path, NoHub(), unwatched)
    assert list(tmp_path.iterdir()) == []


def test_who_wants_the_same_model_waits_and_is_told(fake: FakeHub, tmp_path: Path) -> None:
    titles: list[str] = []
    folder = tmp_path / "tiny_q40"
    folder.mkdir()
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = threading.Thread(
            target=fetch_known, args=(ANCESTOR, tmp_path, Hub(fake.url), lambda work, *_: titles.append(work.title))
        )
        other.start()
        other.join(0.3)
        assert other.is_alive()
        assert titles == ["waiting for another process that fetches tiny_q40"]
    other.join(10)
    assert is_here(ANCESTOR, tmp_path)


@pytest.mark.parametrize("name", ["me/ggufs:nothing-like-it", "me/nowhere", "me/ggufs"])
def test_a_failed_fetch_leaves_no_folder(fake: FakeHub, tmp_path: Path, name: str) -> None:
    with pytest.raises((UsageError, InputError)):
        fetch_repository(name, tmp_path, Hub(fake.url), unwatched)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_fetch_leaves_what_was_there(fake: FakeHub, tmp_path: Path) -> None:
    fetched = fetch_repository("me/ggufs:Q8_0", tmp_path, Hub(fake.url), unwatched)
    with pytest.raises(UsageError):
        fetch_repository("me/ggufs:nothing-like-it", tmp_path, Hub(fake.url), unwatched)
    assert fetch_repository("me/ggufs:Q8_0", tmp_path, NoHub(), unwatched) == fetched


def test_who_waits_for_a_fetch_that_fails_fetches_itself(fake: FakeHub, tmp_path: Path) -> None:
    """The folder, with the lock that both want, is gone when the second gets it."""
    (tmp_path / "me--ggufs").mkdir()
    fetched: list[Fetched] = []
    with (tmp_path / "me--ggufs" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(
            target=lambda: fetched.append(fetch_repository("me/ggufs:Q8_0", tmp_path, Hub(fake.url), unwatched))
        )
        second.start()
        (tmp_path / "me--ggufs" / ".lock").unlink()
        (tmp_path / "me--ggufs").rmdir()
    second.join(60)
    assert fetched[0].model.read_bytes() == A


def test_removing_deletes_that_model_only(fake: FakeHub, tmp_path: Path) -> None:
    one = fetch_repository("me/ggufs:Q8_0", tmp_path, Hub(fake.url), unwatched)
    other = fetch_repository("me/ggufs:F16", tmp_path, Hub(fake.url), unwatched)
    assert remove(other.folder, other.files) == 10_000
    assert (one.model.exists(), other.model.exists()) == (True, False)
    assert remove(one.folder, one.files) == 5000
    assert list(tmp_path.iterdir()) == []


def test_removing_leaves_what_others_put_into_the_folder(fake: FakeHub, tmp_path: Path) -> None:
    model = fetch_repository("me/ggufs:F16", tmp_path, Hub(fake.url), unwatched)
    (model.folder / "notes.txt").write_text("mine")
    (model.folder / "empty" / "too").mkdir(parents=True)
    remove(model.folder, model.files)
    assert (model.folder / "notes.txt").read_text() == "mine" and (model.folder / "empty" / "too").is_dir()


@pytest.mark.parametrize("name", ["other.txt", "model/../other.txt"])
def test_a_spoilt_note_deletes_nothing_outside_the_models_folder(name: str, tmp_path: Path) -> None:
    folder, inside = tmp_path / "model", tmp_path / "model" / "a.gguf"
    folder.mkdir()
    for file in (inside, tmp_path / "other.txt"):
        file.touch()
    with pytest.raises(InputError, match="not in the model's folder"):
        remove(folder, [inside, tmp_path / name])
    assert inside.exists() and (tmp_path / "other.txt").exists()
