# python -m pytest tests/cluster/test_hub.py
from collections.abc import Iterator

import pytest
from huggingface_hub.utils import close_session

from dllama_py.cluster.hub import Hub
from dllama_py.cluster.remote import BrokenOffError, RemoteFile
from dllama_py.errors import ClusterError, InputError, UsageError
from tests.support.hub import COMMIT, FakeHub, running

CONTENT = bytes(range(256)) * 10


@pytest.fixture
def fake() -> Iterator[FakeHub]:
    with running(FakeHub({"me/model": {"config.json": b"{}", "model.safetensors": CONTENT}})) as hub:
        yield hub


@pytest.fixture(autouse=True)
def fresh_session() -> Iterator[None]:
    """The library keeps one, with the proxies of the environment it was made in."""
    close_session()
    yield
    close_session()


def model_file(fake: FakeHub) -> RemoteFile:
    return Hub(fake.url).list_files("me/model")[1]


def read(fake: FakeHub, file: RemoteFile, start: int, stop: int) -> bytes:
    return b"".join(Hub(fake.url).read_range(file, start, stop))


def test_a_repository_lists_sizes_and_hashes(fake: FakeHub) -> None:
    config, model = Hub(fake.url).list_files("me/model")
    assert config == RemoteFile(
        "me/model", COMMIT, "config.json", 2, None, "9e26dfeeb6e641a33dae4961196235bdb965b21b"
    )  # fmt: skip
    assert (model.name, model.n_bytes, model.commit) == ("model.safetensors", 2560, COMMIT)
    assert model.sha256 == "e392378f849d67bbb1a7bbec84f1098ae3faa751049c009a850130ce6073d91a"


def test_a_range_of_the_listed_commit(fake: FakeHub) -> None:
    assert read(fake, model_file(fake), 300, 302) == bytes([44, 45])
    assert fake.asked[-1] == (f"/me/model/resolve/{COMMIT}/model.safetensors", "bytes=300-301")


def test_a_missing_repository(fake: FakeHub) -> None:
    with pytest.raises(UsageError, match="me/other at http://.*: no such repository, or a private one"):
        Hub(fake.url).list_files("me/other")


def test_a_name_that_is_none(fake: FakeHub) -> None:
    with pytest.raises(UsageError, match="'-me/.bad' is no repository's name; expected OWNER/REPO"):
        Hub(fake.url).list_files("-me/.bad")


def test_a_gated_repository(fake: FakeHub) -> None:
    file = model_file(fake)
    fake.gated = True
    with pytest.raises(UsageError, match="accept them at http://127.0.0.1:.*/me/model, then set HF_TOKEN"):
        read(fake, file, 0, 10)


def test_a_file_that_is_gone(fake: FakeHub) -> None:
    file = model_file(fake)
    del fake.repositories["me/model"]["model.safetensors"]
    with pytest.raises(InputError, match="no longer has a file it listed"):
        read(fake, file, 0, 10)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_hub_may_be_asked_again(fake: FakeHub, status: int) -> None:
    file = model_file(fake)
    fake.status_of_bodies = status
    with pytest.raises(BrokenOffError, match=str(status)):
        read(fake, file, 0, 10)


def test_another_refusal_is_final(fake: FakeHub) -> None:
    file = model_file(fake)
    fake.status_of_bodies = 410
    with pytest.raises(ClusterError, match="answered 410"):
        read(fake, file, 0, 10)


def test_a_connection_that_breaks_keeps_what_came(fake: FakeHub) -> None:
    file = model_file(fake)
    fake.break_after = 1000
    got = b""
    with pytest.raises(BrokenOffError):
        for piece in Hub(fake.url).read_range(file, 0, file.n_bytes):
            got += piece
    assert got in (b"", CONTENT[:1000])  # what is less than a piece may be lost


@pytest.mark.parametrize(("start", "stop"), [(0, 10), (2550, 2560)])
def test_a_hub_that_sends_small_files_whole(fake: FakeHub, start: int, stop: int) -> None:
    file = model_file(fake)
    fake.ignores_ranges = True
    assert read(fake, file, start, stop) == CONTENT[start:]


def test_a_hub_without_ranges(fake: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dllama_py.cluster.hub.SMALL_BYTES", 2000)
    file = model_file(fake)
    fake.ignores_ranges = True
    with pytest.raises(ClusterError, match="does not send parts of files"):
        read(fake, file, 0, 2560)


def test_a_token_that_is_refused(fake: FakeHub) -> None:
    file = model_file(fake)
    fake.status_of_bodies = 403
    with pytest.raises(UsageError, match=r"refused \(403\); set HF_TOKEN to a token that may read it"):
        read(fake, file, 0, 10)


def test_how_long_to_wait(fake: FakeHub) -> None:
    file = model_file(fake)
    fake.status_of_bodies, fake.retry_after = 429, "7"
    with pytest.raises(BrokenOffError) as broken:
        read(fake, file, 0, 10)
    assert broken.value.wait_s == 7


def test_a_file_of_another_size(fake: FakeHub) -> None:
    file = model_file(fake)
    fake.repositories["me/model"]["model.safetensors"] = CONTENT[:100]
    with pytest.raises(InputError, match="has 100 bytes, the hub's list says 2560"):
        read(fake, file, 0, 10)
    with pytest.raises(InputError, match="has 100 bytes, the hub's list says 2560"):
        read(fake, file, 200, 210)


def test_no_hub_at_all() -> None:
    with pytest.raises(ClusterError, match="cannot be reached .* set HF_ENDPOINT"):
        Hub("http://127.0.0.1:9").list_files("me/model")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HF_TOKEN", "tök"),
        ("http_proxy", "http://ü ü"),
        ("http_proxy", "nonsense://x"),
        ("all_proxy", "socks5://127.0.0.1:9"),
        ("all_proxy", "http://[::1"),
    ],
)
def test_an_environment_that_cannot_work(
    fake: FakeHub, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError, match=r"me/model at .*: no hub answers there \(.*\); check HF_ENDPOINT, HF_TOKEN"):
        Hub(fake.url).list_files("me/model")


@pytest.mark.parametrize("endpoint", ["http://ü ü", "http://a..b", "http://" + "a" * 70, "http://[::1"])
def test_an_address_that_is_none(endpoint: str) -> None:
    with pytest.raises(UsageError, match=r": no hub answers there \(.*\); check HF_ENDPOINT"):
        Hub(endpoint).list_files("me/model")


@pytest.mark.parametrize(
    "page", [b"<!DOCTYPE html><title>Sign in</title>", b"[]", b"{}", b'{"id": 1, "siblings": [3]}']
)
def test_a_page_in_the_place_of_a_list(fake: FakeHub, page: bytes) -> None:
    fake.says_instead = page
    with pytest.raises(UsageError, match="me/model at .*: no hub answers there"):
        Hub(fake.url).list_files("me/model")


def test_an_address_without_repositories(fake: FakeHub) -> None:
    with pytest.raises(UsageError, match="/sub: answered 404, there is nothing; check the name, and HF_ENDPOINT"):
        Hub(f"{fake.url}/sub").list_files("me/model")


def test_no_network_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UsageError, match="is not asked, for HF_HUB_OFFLINE is set; unset it to fetch"):
        Hub("http://127.0.0.1:9").list_files("me/model")


def test_a_token_is_for_the_hub_and_not_for_where_it_sends_us(fake: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    fake.bodies_lie_elsewhere = True
    assert read(fake, model_file(fake), 300, 302) == bytes([44, 45])
    assert fake.asked[-1] == ("/elsewhere/me/model/model.safetensors", "bytes=300-301")
    assert [token for _, token in fake.tokens] == ["Bearer hf_secret", "Bearer hf_secret", None]
