"""The engine for programs: `from dllama_py import Engine`.

All ranks run the same script. `Engine.serve()` is the whole program of a worker; on the root it does nothing. A thread
of its own runs the engine, because one thread alone may talk to the other ranks; answers come to the caller's event
loop token by token. Answers that are asked for at the same time share the steps of the engine, and each is what it
would be alone.
"""

import asyncio
import os
import queue
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from dllama_py.boot import Engine as OpenedEngine
from dllama_py.boot import Say, open_engine, serve_root, unsaid
from dllama_py.cluster.attached_watcher import attach, detach
from dllama_py.cluster.registry import find_model
from dllama_py.completion import Event, Finish, Piece, Request
from dllama_py.desk import Desk, Job
from dllama_py.drafting import Speculations, with_speculation
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.errors import DllamaError, UsageError, did_you_mean
from dllama_py.formats.checkpoint import Checkpoint, open_checkpoint
from dllama_py.prompting import (
    Prompt,
    Text,
    check_vocabulary,
    drops_first_space,
    end_ids,
    open_text,
    prompt_ids,
    template_options,
    written_down,
)
from dllama_py.settings import (
    AUTO,
    TENSOR,
    TOPOLOGIES,
    EngineSettings,
    PipelineSettings,
    check_number,
    checked_path,
)
from dllama_py.transport.environment import launched_rank
from dllama_py.transport.failure import AgreedExit, AgreedFailure
from dllama_py.transport.world import joined_world
from dllama_py.troubleshooting import with_row

GREEDY = SamplerSettings()
MAX_TOKENS = 256
NOT_ASKED = ("n_slots", "draft", "reads_memory")  # settings that have a name of their own here, or none

Tell = Callable[[Event | Exception], None]


@dataclass(frozen=True, slots=True)
class StreamedToken:
    """A token, and the text that became certain with it. The last item of an answer has `finish_reason`, `stop` or
    `length`, and no id: with it comes what text had been held back.
    """

    id: int | None
    text: str
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be answered, and how. `prompt`: raw text, token ids, or chat messages for the model's template."""

    prompt: Prompt
    max_tokens: int
    sampling: SamplerSettings
    stops: Sequence[str]
    template_options: Mapping[str, Any]

    @classmethod
    def checked(cls, prompt: Any, max_tokens: Any, sampling: Any, stop: Any, options: Any) -> "Wish":
        """None: the default. UsageError for what cannot be meant."""
        max_tokens = MAX_TOKENS if max_tokens is None else max_tokens
        check_number("max_tokens", max_tokens, least=0)
        sampling = GREEDY if sampling is None else sampling
        if not isinstance(sampling, SamplerSettings):
            raise UsageError(f"sampling is {sampling!r}; expected SamplerSettings")
        return cls(written_down(prompt), max_tokens, sampling, _stops(stop), template_options(options))


class Engine:
    """A model, held by all ranks of the job together; this is the root. `with Engine.open(...) as engine:` ..."""

    def __init__(self, settings: EngineSettings, model: Path, tokenizer: Path | None, say: Say) -> None:
        self._settings = settings
        self._model = model
        self._tokenizer = tokenizer
        self._say = say
        self._became: queue.SimpleQueue[_Opened | Exception] = queue.SimpleQueue()
        self._opened: _Opened | None = None
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    @classmethod
    def open(
        cls,
        model: str | Path,
        *,
        tokenizer: str | Path | None = None,
        topology: str = "tensor",
        sequences: int = 1,
        draft: str | Path | None = None,
        say: Say = unsaid,
        **settings: Any,
    ) -> "Engine":
        """model: a GGUF file, `.m` file or Hugging Face folder. topology: `tensor`, `pipeline` for one stage a rank, or
        `auto` for the faster of both on these ranks;
        other pipelines by `pipeline=PipelineSettings(...)`. sequences: answers under way at once, at most. draft: a
        small model of the same vocabulary that guesses. say: is told, line by line, how the model is shared. settings:
        other fields of `settings.EngineSettings`, such as speculate="lookup"; no guess changes an answer.

        Entering it loads the model and raises what keeps it from that: UsageError, InputError, ClusterError.
        """
        attach()
        if launched_rank(os.environ):
            raise UsageError("Engine.open is for rank 0; the other ranks call Engine.serve()")
        if topology not in TOPOLOGIES:
            raise UsageError(f"there is no topology {topology!r}; expected tensor, pipeline or auto")
        if topology != TENSOR:
            settings.setdefault("pipeline", PipelineSettings(or_tensor=topology == AUTO))
        check_number("sequences", sequences)
        if not callable(say):
            raise UsageError(f"say is {say!r}; expected a function of a line")
        small = None if draft is None else checked_path("draft", draft)
        wishes = EngineSettings(n_slots=sequences, draft=small, **_known(settings))
        if wishes.pipeline is not None and wishes.pipeline.plan_only:
            raise UsageError("plan_only loads nothing that could answer; the mode that only plans is dllama_py plan")
        vocabulary = None if tokenizer is None else checked_path("tokenizer", tokenizer)
        return cls(with_speculation(wishes), checked_path("model", model), vocabulary, say)

    @staticmethod
    def serve(threads: int | None = None) -> None:
        """On a worker: computes for the root until that ends, then ends the process. On the root: nothing.

        threads: of this worker; None for as many as its host has performance cores for it.
        """
        if not launched_rank(os.environ):
            return
        attach()
        code = 0
        try:
            with joined_world() as comm:
                serve_root(threads, comm)
        except AgreedFailure as failure:
            code = _explain(failure.error)
        except AgreedExit as end:
            code = end.error.exit_code
        except DllamaError as error:
            code = _explain(error)
        detach()
        raise SystemExit(code)

    def __enter__(self) -> "Engine":
        if self._thread.ident is not None:
            raise UsageError("this engine was opened before; Engine.open gives another one")
        self._thread.start()
        became = self._became.get()
        if isinstance(became, Exception):
            self._thread.join()
            raise became
        self._opened = became
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            self._opened.desk.close()
        self._thread.join()

    async def generate_stream(
        self,
        prompt: Prompt,
        *,
        max_tokens: int | None = None,
        sampling: SamplerSettings | None = None,
        stop: str | Sequence[str] | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[StreamedToken]:
        """The answer, token by token; the last item has its `finish_reason`. chat_template_kwargs: variables of the
        model's template for chat messages, as {"enable_thinking": False}.

        None: 256 tokens at most, greedily, and no `stop` texts. Whoever stops listening ends the answer. UsageError for
        a prompt that does not fit, and for what cannot be meant.
        """
        if self._opened is None:
            raise UsageError("the engine is not open; use it inside `with Engine.open(...) as engine:`")
        tokens: asyncio.Queue[Event | Exception] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        wish = Wish.checked(prompt, max_tokens, sampling, stop, chat_template_kwargs)
        job = self._opened.job(wish, partial(_tell, loop, tokens))
        self._opened.desk.submit(job)
        try:
            while True:
                event = await tokens.get()
                if isinstance(event, Exception):
                    raise event
                if isinstance(event, Piece):
                    yield StreamedToken(event.token.id, event.text)
                elif isinstance(event, Finish):
                    yield StreamedToken(None, event.text, event.reason)
                    return
        finally:
            job.is_cancelled.set()

    def _run(self) -> None:
        """The engine's thread."""
        try:
            with joined_world() as comm, open_engine(self._settings, comm, self._open_model, self._say) as engine:
                assert engine is not None, "this is the root"
                text = open_text(engine.checkpoint, self._tokenizer)
                speculations = Speculations(self._settings.speculate, engine.draft)
                piece = text.tokenizer.piece if text else _no_text
                desk = Desk(engine.runner, self._settings.n_slots, piece, speculations.of)
                self._became.put(_Opened(engine, text, desk))
                desk.run()
        except (AgreedFailure, AgreedExit) as failure:
            self._became.put(failure.error)
        except Exception as error:  # of the desk all jobs have been told already
            self._became.put(error)
        finally:
            detach()

    def _open_model(self) -> Checkpoint:
        checkpoint = open_checkpoint(find_model(self._model))
        text = open_text(checkpoint, self._tokenizer)
        if text is not None:
            check_vocabulary(text, checkpoint)
            for line in text.tokenizer.notes:
                self._say(line)
        return checkpoint


@dataclass(frozen=True, slots=True)
class _Opened:
    """What the engine's thread has made."""

    engine: OpenedEngine
    text: Text | None
    desk: Desk

    def job(self, wish: Wish, tell: Tell) -> Job:
        """UsageError for a prompt that is empty, too long, or not to be had."""
        text, orders = self.text, self.engine.orders
        ids = prompt_ids(text, wish.prompt, wish.template_options)
        orders.check_prompt(ids)
        n_vocab = text.tokenizer.vocab_size if text else orders.config.vocab_size
        ends = end_ids(self.engine.checkpoint, text)
        request = Request(ids, wish.sampling, wish.max_tokens, ends, n_vocab, wish.stops)
        return Job(request, drops_first_space(text, wish.prompt, ids), tell)


def _stops(stop: Any) -> Sequence[str]:
    """Of one text, of several, or of None."""
    if stop is None:
        return ()
    stops = (stop,) if isinstance(stop, str) else tuple(stop) if isinstance(stop, Iterable) else (stop,)
    if not all(isinstance(each, str) for each in stops):
        raise UsageError(f"stop is {stop!r}; expected a text or several")
    return stops


def _known(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """UsageError for a setting that there is not."""
    names = [field.name for field in fields(EngineSettings) if field.name not in NOT_ASKED]
    for name in settings:
        if name not in names:
            raise UsageError(f"there is no setting {name!r}{did_you_mean(name, names)}; expected {', '.join(names)}")
    return settings


def _explain(error: DllamaError) -> int:
    """Of a worker, which has nobody else to tell it; -> its exit code."""
    sys.stderr.write(f"error: rank {launched_rank(os.environ)} on {os.uname().nodename}: {with_row(error)}\n")
    sys.stderr.flush()
    return error.exit_code


def _tell(loop: asyncio.AbstractEventLoop, tokens: asyncio.Queue[Event | Exception], event: Event | Exception) -> None:
    """From the engine's thread. Nobody listens any more where the caller's event loop has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(tokens.put_nowait, event)


def _no_text(token: int) -> bytes:
    return b""
