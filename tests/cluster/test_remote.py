# python -m pytest tests/cluster/test_remote.py
import pytest

from dllama_py.cluster.remote import RemoteFile, chosen_endpoint
from dllama_py.errors import UsageError


@pytest.mark.parametrize(
    ("given", "endpoint"),
    [
        ("", "https://huggingface.co"),
        ("https://hub.example/", "https://hub.example"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        (" http://hub.example/mirror/ ", "http://hub.example/mirror"),
    ],
)
def test_the_hub_that_is_meant(monkeypatch: pytest.MonkeyPatch, given: str, endpoint: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", given)
    assert chosen_endpoint() == endpoint


@pytest.mark.parametrize(
    "given", ["foo", "http://[bad", "http://127.0.0.1:99999", "file:///etc", "https://", "http://h?a", "http://h#a"]
)
def test_what_can_be_no_hub(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", given)
    with pytest.raises(UsageError, match="HF_ENDPOINT is .*; expected https://HOST or http://HOST:PORT, or nothing"):
        chosen_endpoint()


def test_small_files_are_known_by_the_hash_of_git() -> None:
    small = RemoteFile("me/model", "c", "a", 6, None, "ce013625030ba8dba906f756967f9e9ca394464a")
    hasher = small.hasher()
    hasher.update(b"hello\n")
    assert hasher.hexdigest() == small.expected
