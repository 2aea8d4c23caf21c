"""The only door to huggingface_hub, and with it to the network: listing a repository and reading ranges of its files.

The library gives token, proxies, and errors with a meaning; see docs/decisions/0005.
"""

import re
from collections.abc import Generator

import httpx2
from huggingface_hub import HfApi, hf_hub_url
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status  # type: ignore[attr-defined]

from dllama_py.cluster.remote import BrokenOffError, RemoteFile, without_password
from dllama_py.errors import ClusterError, DllamaError, InputError, UsageError

TIMEOUT_S = 20.0  # without a single byte
PIECE_BYTES = 256 << 10
SMALL_BYTES = 32 << 20  # up to here a hub may send the whole file; some compress small ones and forget the range
LONGEST_WAIT_S = 300.0  # if the hub names a longer one
FOR_THE_MOMENT = {408, 429, 500, 502, 503, 504}

# What the libraries raise for addresses, proxies and tokens of the environment that can be none, and for answers that
# are no hub's, such as the page of a hotel's network.
_NO_HUB = (httpx2.InvalidURL, ImportError, OSError, ValueError, KeyError, TypeError, AttributeError)


class Hub:
    """One hub; `endpoint`: http://HOST[:PORT] without a slash at its end."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._shown = without_password(endpoint)

    def list_files(self, repository: str) -> tuple[RemoteFile, ...]:
        """All files of the newest commit. UsageError where there is no such repository, ClusterError without a hub."""
        try:
            info = HfApi(endpoint=self.endpoint).model_info(repository, files_metadata=True, timeout=TIMEOUT_S)
        except (httpx2.HTTPError, *_NO_HUB) as error:
            raise self._explained(error, repository) from error
        entries = info.siblings or []
        if any(entry.size is None for entry in entries):
            raise ClusterError(
                f"{repository} at {self._shown}: its list has no sizes of files; use another HF_ENDPOINT"
            )
        return tuple(
            RemoteFile(
                repository,
                info.sha or "main",
                entry.rfilename,
                entry.size or 0,
                entry.lfs.sha256 if entry.lfs else None,
                entry.blob_id or "",
            )
            for entry in entries
        )

    def read_range(self, file: RemoteFile, start: int, stop: int) -> Generator[bytes]:
        """Fulfils `remote.ReadRange`."""
        url = hf_hub_url(file.repository, file.name, revision=file.commit, endpoint=self.endpoint)
        headers = {**build_hf_headers(), "Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
        try:
            with get_session().stream("GET", url, headers=headers, timeout=TIMEOUT_S) as response:
                surplus = _surplus(response, file, start)
                for piece in response.iter_raw(PIECE_BYTES):
                    yield piece[surplus:]
                    surplus = max(surplus - len(piece), 0)
        except httpx2.TransportError as error:
            raise BrokenOffError(_said(error)) from error
        except (HfHubHTTPError, *_NO_HUB) as error:
            raise self._explained(error, file.repository) from error

    def _explained(self, error: Exception, repository: str) -> DllamaError:
        where = f"{repository} at {self._shown}"
        match error:
            case GatedRepoError():
                return UsageError(
                    f"{where} is given only to those who accepted its terms: accept them at "
                    f"{self._shown}/{repository}, then set HF_TOKEN to a token of that account (or `hf auth login`)"
                )
            case RepositoryNotFoundError():
                return UsageError(f"{where}: no such repository, or a private one; check the name, or set HF_TOKEN")
            case EntryNotFoundError():
                return InputError(f"{where} no longer has a file it listed; try again")
            case HFValidationError():
                return UsageError(f"{repository!r} is no repository's name; expected OWNER/REPO")
            case HfHubHTTPError() if error.response.status_code in (401, 403):
                return UsageError(
                    f"{where}: refused ({error.response.status_code}); set HF_TOKEN to a token that may read it"
                )
            case HfHubHTTPError() if error.response.status_code == 404:
                return UsageError(
                    f"{where}: answered 404, there is nothing; check the name, and HF_ENDPOINT if it is set"
                )
            case HfHubHTTPError():
                return ClusterError(f"{where}: answered {error.response.status_code}; try again later")
            case OfflineModeIsEnabled():
                return UsageError(f"{where} is not asked, for HF_HUB_OFFLINE is set; unset it to fetch")
            case httpx2.HTTPError():
                return ClusterError(
                    f"{where} cannot be reached ({_said(error)}): check the network, or set HF_ENDPOINT"
                )
        return UsageError(
            f"{where}: no hub answers there ({type(error).__name__}: {_said(error)}); check HF_ENDPOINT, HF_TOKEN and "
            "the proxies that http_proxy, https_proxy and all_proxy name"
        )


def _surplus(response: httpx2.Response, file: RemoteFile, start: int) -> int:
    """How many bytes come before the wanted range. Refuses an answer that does not hold it."""
    if response.status_code in FOR_THE_MOMENT:
        wait = response.headers.get("Retry-After", "")
        wait_s = min(float(wait), LONGEST_WAIT_S) if wait.isdecimal() else 0.0
        raise BrokenOffError(f"the hub answered {response.status_code}", wait_s)
    if response.status_code >= 400 and response.status_code != 416:
        response.read()
        hf_raise_for_status(response)
    if response.status_code == 200 and file.n_bytes <= SMALL_BYTES:
        return start
    found = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(\d+)", response.headers.get("Content-Range", ""))
    if found is None:
        raise ClusterError(f"{file.name}: the hub does not send parts of files; without them nothing can be resumed")
    if int(found[2]) != file.n_bytes:
        raise InputError(
            f"{file.name} has {found[2]} bytes, the hub's list says {file.n_bytes}: it was replaced; try again"
        )
    if found[1] is None or int(found[1]) != start:
        raise ClusterError(f"{file.name}: byte {start} was asked for, byte {found[1]} came; try again later")
    return 0


def _said(error: Exception) -> str:
    """The first line of an error, or its kind if it has no words."""
    return without_password((str(error).strip() or type(error).__name__).splitlines()[0])
