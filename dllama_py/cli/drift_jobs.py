"""The jobs that `drift` starts: the same request to other settings, each a run of another mode."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dllama_py.activations import ActivationType
from dllama_py.cli import options
from dllama_py.cluster.job import Placement
from dllama_py.cluster.series import Job, answer_of
from dllama_py.engine.comparison import Logits, first_bad_row
from dllama_py.engine.parting import Trail
from dllama_py.errors import InputError
from dllama_py.progress import Progress, Work

EXACT = ActivationType.F32.label


@dataclass(frozen=True, slots=True)
class Setting:
    """How a job computes. `threads` of each node, None: as the nodes choose. `activations`: what stages of a pipeline
    send each other, None where the nodes share every layer.
    """

    nodes: int
    threads: int | None
    exchange: str
    chunk: int
    activations: str | None = None

    @property
    def family(self) -> str:
        """Settings of one family give one answer. Where rows are rounded between stages it matters where."""
        if self.activations in (None, EXACT):
            return self.exchange
        return f"{self.nodes} stages, {self.activations}"

    @property
    def format(self) -> str:
        """Of what travels between nodes."""
        return self.exchange if self.activations is None else f"stages, {self.activations}"


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt and what the first setting generated from it."""

    prompt_ids: list[int]
    ids: list[int]

    @property
    def fed_ids(self) -> list[int]:
        """All ids that the model computed: the last generated one goes nowhere."""
        return self.prompt_ids + self.ids[:-1]


@dataclass(frozen=True, slots=True)
class Answer:
    """Of a setting to a request: logits float32 [T, V] of every id that was fed, the ids that it generates, and hashes
    of what was computed on the way.
    """

    logits: Logits
    ids: list[int]
    threads: int
    trail: Trail


class Jobs:
    """Runs the model of a command line; files of logits pass through `folder`. `n_jobs`: how many there will be."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        places: Mapping[int, Placement],
        folder: Path,
        n_jobs: int,
        on_progress: Progress,
    ) -> None:
        self._arguments = arguments
        self._places = places
        self._folder = folder
        self._work = Work("comparing", n_jobs, "jobs")
        self._n_done = 0
        self._on_progress = on_progress
        self._model = ["--model", str(options.model_path(arguments))]
        self._model += _given("--tokenizer", arguments.tokenizer) + _given("--weights", arguments.weights)

    def request(self, setting: Setting, prompt: Sequence[str]) -> Request:
        """What is generated greedily after the prompt that these options give."""
        steps = ["--steps", str(self._arguments.steps), "--json"]
        found = self._run(setting, ["inference", *self._model, *prompt, *steps])
        return Request(found["prompt_ids"], found["ids"])

    def answer(self, setting: Setting, request: Request, other_model: Sequence[str] = ()) -> Answer:
        """The request, its generated ids computed one by one. InputError if logits are no numbers."""
        out, hashes, n = self._folder / "logits.npy", self._folder / "hashes.npz", len(request.ids)
        ids = ["--ids", ",".join(map(str, request.fed_ids)), "--singly", str(n - 1), "--answer", str(n)]
        files = ["--out", str(out), "--hashes", str(hashes)]
        found = self._run(setting, ["logits", *(other_model or self._model), *ids, *files, "--json"])
        return Answer(read_logits(out), found["ids"], found["threads"], _read_trail(hashes))

    def perplexity(self, setting: Setting, file: Path) -> float:
        """On a text."""
        found = self._run(setting, ["perplexity", *self._model, "--file", str(file), "--json"])
        return float(found["perplexity"])

    def _run(self, setting: Setting, words: Sequence[str]) -> dict[str, Any]:
        a = self._arguments
        how = ["--buffer-float-type", setting.exchange, "--chunk", str(setting.chunk)]
        how += _given("--nthreads", setting.threads) + _given("--max-seq-len", a.max_seq_len)
        how += ["--kv-cache-type", a.kv_cache_type] + ["--replicate-kv"] * a.replicate_kv
        if setting.activations is not None:
            even = ":".join("1" * setting.nodes)  # where a row is rounded must not depend on how fast a node is today
            how += ["--topology", "pipeline", "--split", even, "--activations", setting.activations]
        detail = f"{words[0]}, nodes {setting.nodes}, exchange {setting.format}, chunk {setting.chunk}"
        self._on_progress(self._work, self._n_done, detail)
        found = answer_of(Job(self._places[setting.nodes], [*words, *how], patience_s=a.timeout))
        self._n_done += 1
        self._on_progress(self._work, self._n_done, "")
        return found


def _read_trail(path: Path) -> Trail:
    with np.load(path) as arrays:
        return Trail(arrays["residual"], arrays["leaves"], arrays["nodes"])


def read_logits(path: Path) -> Logits:
    """float32 [T, V] of a .npy file; floats of other widths are rounded. InputError if it is none or holds NaNs."""
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(
            f"{path} is no .npy file ({error}); expected logits as float32 [tokens, vocabulary]"
        ) from error
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind != "f" or array.shape[1] < 2:
        found = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else "an archive of arrays"
        raise InputError(f"{path} holds {found}; expected logits as float32 [tokens, vocabulary]")
    logits: Logits = np.ascontiguousarray(array, np.float32)
    bad = first_bad_row(logits)
    if bad is not None:
        raise InputError(f"{path}: the logits of token {bad} are not all finite; its model may be damaged")
    return logits


def _given(name: str, value: object) -> list[str]:
    return [] if value is None else [name, str(value)]
