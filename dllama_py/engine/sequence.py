"""One slot of the cache and the ids whose keys and values it holds.

Beyond these the slot may hold what was computed of drafted ids that turned out wrong: it is computed anew before
anything looks at it.
"""

from collections import deque
from collections.abc import Iterator, Sequence

from dllama_py.engine.scores import Ask
from dllama_py.engine.step import Row, StepResult, Steps, Work
from dllama_py.errors import UsageError


class CachedSequence:
    """Feeds ids to a slot; a prompt that begins like what is cached computes only the rest."""

    def __init__(self, runner: Steps, slot: int, chunk_rows: int | None = None) -> None:
        self.runner = runner
        self._slot = slot
        self._chunk_rows = min(chunk_rows or runner.max_rows, runner.max_rows)
        self._sent: deque[int] = deque()
        self.ids: list[int] = []

    def start(self, prompt: Sequence[int]) -> int:
        """Keeps the longest common run of ids, forgets the rest; the number of prompt ids already computed.

        The last prompt id is always computed anew, because its logits are wanted.
        """
        if not prompt:
            raise UsageError("the prompt is empty; give at least one token")
        if len(prompt) > self.runner.context:
            raise UsageError(
                f"the prompt has {len(prompt)} tokens, the context {self.runner.context}; "
                "shorten it or raise --max-seq-len"
            )
        reused = self.common(prompt)
        self.cut(reused)
        return reused

    def common(self, prompt: Sequence[int]) -> int:
        """How many of the prompt's ids, but for the last one, are held."""
        n = 0
        while n < min(len(self.ids), len(prompt) - 1) and self.ids[n] == prompt[n]:
            n += 1
        return n

    def cut(self, length: int) -> None:
        """Forgets the ids from a place on."""
        self.runner.cut(self._slot, length)
        self._sent.clear()
        del self.ids[length:]

    @property
    def room(self) -> int:
        """Positions left in the context."""
        return self.runner.context - len(self.ids)

    def feed(self, ids: Sequence[int], want_all: bool = False, ask: Ask | None = None) -> Iterator[StepResult]:
        """Computes ids in chunks, as `chunks` has them."""
        for work in self.chunks(ids, want_all, ask):
            yield self.runner.forward(work)

    def chunks(self, ids: Sequence[int], want_all: bool = False, ask: Ask | None = None) -> Iterator[Work]:
        """The next ids, in chunks that are computed one after the other. Wanted are all rows if `want_all`, else the
        very last id's alone: its logits, or with `ask` its scores.
        """
        for start in range(0, len(ids), self._chunk_rows):
            chunk = ids[start : start + self._chunk_rows]
            rows = self._rows(chunk)
            is_last = start + len(chunk) == len(ids)
            wanted = range(len(chunk)) if want_all else range(len(chunk) - 1, len(chunk)) if is_last else range(0)
            self.ids += chunk
            yield Work(rows, wanted, [ask] * len(wanted) if ask else ())

    def check(self, id: int, drafted: Sequence[int], ask: Ask) -> Work:
        """The next id and, in the same step, ids that may follow it; scores of all of them are wanted.

        The drafted ids are not held before they are confirmed, one by one. Whatever was sent before is void.
        """
        self._sent.clear()
        rows = self._rows((id, *drafted))
        self.ids.append(id)
        self._sent.extend(drafted)
        return Work(rows, range(len(rows)), [ask] * len(rows))

    def check_ahead(self, drafted: Sequence[int], ask: Ask) -> Work:
        """Ids that may follow those that were sent and are not confirmed yet, as a step of their own."""
        rows = self._rows(drafted)
        self._sent.extend(drafted)
        return Work(rows, range(len(rows)), [ask] * len(rows), is_ahead=True)

    def confirm(self, id: int) -> bool:
        """The next id is certain. Whether it was sent, so that it is held now; if not, all that was sent is void."""
        if self._sent and self._sent[0] == id:
            self.ids.append(self._sent.popleft())
            return True
        self._sent.clear()
        return False

    @property
    def n_sent(self) -> int:
        """Ids computed or under way that are not confirmed."""
        return len(self._sent)

    @property
    def most_drafted(self) -> int:
        """How many ids a step has room for, in its rows and in the context, behind the next one."""
        return min(self.runner.max_rows, self.room) - 1

    @property
    def most_ahead(self) -> int:
        """How many ids a step has room for behind all that were sent."""
        return min(self.runner.max_rows, self.room - len(self._sent))

    def _rows(self, ids: Sequence[int]) -> list[Row]:
        first = len(self.ids) + len(self._sent)
        return [Row(id, self._slot, first + i) for i, id in enumerate(ids)]
