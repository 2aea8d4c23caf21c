"""The engine for programs: `from dllama_py import Engine`.

All ranks run the same script. `Engine.serve()` is the whole program of a worker; on the root it does nothing. A thread
of its own runs the engine, because one thread alone may talk to the other ranks; answers come to the caller's event
loop token by token. Answers that are asked for at the same time share the steps of the engine, and each is what it
would be alone.
"""

import asyncio
import os
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from pathlib import Path
from types import TracebackType
from typing import Any

from dllama_py.boot import Engine as OpenedEngine
from dllama_py.boot import Say, open_engine
from dllama_py.cluster.registry import find_model
from dllama_py.completion import Event, Finish, Piece, Request
from dllama_py.desk import Desk, Job
from dllama_py.drafting import Speculations, with_speculation
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.errors import UsageError
from dllama_py.formats.checkpoint import Checkpoint, open_checkpoint
from dllama_py.prompting import Text, check_vocabulary, end_ids, need_text, open_text
from dllama_py.settings import TOPOLOGIES, EngineSettings, PipelineSettings, check_number
from dllama_py.transport.environment import launched_rank
from dllama_py.transport.failure import AgreedFailure
from dllama_py.transport.world import joined_world

GREEDY = SamplerSettings()

Messages = Sequence[Mapping[str, Any]]
Prompt = str | Sequence[int] | Messages
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
    max_tokens: int = 256
    sampling: SamplerSettings = GREEDY
    stop: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        """UsageError for what cannot be meant."""
        check_number("max_tokens", self.max_tokens, least=0)
        if not all(isinstance(each, str) for each in self.stops):
            raise UsageError(f"stop is {self.stop!r}; expected a text or several")
        if not isinstance(self.sampling, SamplerSettings):
            raise UsageError(f"sampling is {self.sampling!r}; expected SamplerSettings")

    @property
    def stops(self) -> Sequence[str]:
        return (self.stop,) if isinstance(self.stop, str) else self.stop


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
        say: Say = lambda line: None,
        **settings: Any,
    ) -> "Engine":
        """model: a GGUF file, `.m` file or Hugging Face folder. topology: `tensor`, or `pipeline` for one stage a rank;
        other pipelines by `pipeline=PipelineSettings(...)`. sequences: answers under way at once, at most. draft: a
        small model of the same vocabulary that guesses. say: is told, line by line, how the model is shared. settings:
        other fields of `settings.EngineSettings`, such as speculate="lookup"; no guess changes an answer.

        Entering it loads the model and raises what keeps it from that: UsageError, InputError, ClusterError.
        """
        if launched_rank(os.environ):
            raise UsageError("Engine.open is for rank 0; the other ranks call Engine.serve()")
        if topology not in TOPOLOGIES:
            raise UsageError(f"there is no topology {topology!r}; expected tensor or pipeline")
        if topology == "pipeline":
            settings.setdefault("pipeline", PipelineSettings())
        check_number("sequences", sequences)
        wishes = EngineSettings(n_slots=sequences, draft=Path(draft) if draft else None, **settings)
        if wishes.pipeline is not None and wishes.pipeline.plan_only:
            raise UsageError("plan_only loads nothing that could answer; the mode that only plans is dllama_py plan")
        return cls(with_speculation(wishes), Path(model), Path(tokenizer) if tokenizer else None, say)

    @staticmethod
    def serve(threads: int | None = None) -> None:
        """On a worker: computes for the root until that ends, then ends the process. On the root: nothing.

        threads: of this worker; None for as many as its host has performance cores for it.
        """
        if not launched_rank(os.environ):
            return
        settings = EngineSettings(n_threads=threads)
        with joined_world() as comm, open_engine(settings, comm, _no_model, lambda line: None):
            pass
        raise SystemExit(0)

    def __enter__(self) -> "Engine":
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

    async def generate_stream(self, prompt: Prompt, **wishes: Any) -> AsyncIterator[StreamedToken]:
        """The answer, token by token; the last item has its `finish_reason`.

        wishes: `max_tokens`, `sampling` (a SamplerSettings), `stop` texts. Whoever stops listening ends the answer.
        UsageError for a prompt that does not fit.
        """
        if self._opened is None:
            raise UsageError("the engine is not open; use it inside `with Engine.open(...) as engine:`")
        tokens: asyncio.Queue[Event | Exception] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        job = self._opened.job(Wish(_written_down(prompt), **wishes), partial(_tell, loop, tokens))
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
        except AgreedFailure as failure:
            self._became.put(failure.error)
        except Exception as error:  # of the desk all jobs have been told already
            self._became.put(error)

    def _open_model(self) -> Checkpoint:
        checkpoint = open_checkpoint(find_model(Path(self._model)))
        text = open_text(checkpoint, self._tokenizer)
        if text is not None:
            check_vocabulary(text, checkpoint)
        return checkpoint


@dataclass(frozen=True, slots=True)
class _Opened:
    """What the engine's thread has made."""

    engine: OpenedEngine
    text: Text | None
    desk: Desk

    def job(self, wish: Wish, tell: Tell) -> Job:
        """UsageError for a prompt that is empty, too long, or not to be had."""
        ids, text, orders = self._ids(wish.prompt), self.text, self.engine.orders
        orders.check_prompt(ids)
        n_vocab = text.tokenizer.vocab_size if text else orders.config.vocab_size
        ends = end_ids(self.engine.checkpoint, text)
        request = Request(ids, wish.sampling, wish.max_tokens, ends, n_vocab, wish.stops)
        return Job(request, self._drops_first_space(wish.prompt, ids), tell)

    def _ids(self, prompt: Prompt) -> list[int]:
        if isinstance(prompt, str):
            return need_text(self.text, "a text prompt", ", or token ids").tokenizer.encode(prompt)
        ids = [int(each) for each in prompt if isinstance(each, Integral)]
        messages = [each for each in prompt if isinstance(each, Mapping)]
        if len(ids) == len(prompt):
            return ids
        if len(messages) == len(prompt):
            return need_text(self.text, "a chat").template.encode(messages)
        kinds = ", ".join(sorted({type(each).__name__ for each in prompt}))
        raise UsageError(f"the prompt holds {kinds}; expected a text, token ids alone, or chat messages alone")

    def _drops_first_space(self, prompt: Prompt, ids: Sequence[int]) -> bool:
        if self.text is None:
            return False
        is_chat = not isinstance(prompt, str) and any(isinstance(each, Mapping) for each in prompt)
        return self.text.tokenizer.drops_first_space if is_chat else self.text.drops_space_after(ids)


def _written_down(prompt: Any) -> Prompt:
    """One that may be looked at more than once."""
    if isinstance(prompt, str):
        return prompt
    if not isinstance(prompt, Iterable):
        raise UsageError(f"the prompt is {prompt!r}; expected a text, token ids or chat messages")
    return list(prompt)


def _tell(loop: asyncio.AbstractEventLoop, tokens: asyncio.Queue[Event | Exception], event: Event | Exception) -> None:
    """From the engine's thread. Nobody listens any more where the caller's event loop has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(tokens.put_nowait, event)


def _no_text(token: int) -> bytes:
    return b""


def _no_model() -> Checkpoint:
    raise AssertionError("a worker reads no model")
