"""What every vocabulary offers, and the one that is run by the `tokenizers` library."""

import json
from collections.abc import Collection, Mapping
from threading import Lock
from typing import Any, Protocol

from tokenizers import Tokenizer as Backend
from tokenizers.pre_tokenizers import Metaspace, PreTokenizer, Sequence

from dllama_py.errors import InputError
from dllama_py.text.pieces import byte_level_piece, word_piece

Span = tuple[int, tuple[int, int]]  # an id, and the characters from start to stop that it covers


_FEW = 1000  # ids that any vocabulary may leave out


class Vocabulary(Protocol):
    """Text to ids and ids to bytes, without begin or end tokens of its own accord. Safe for several threads."""

    @property
    def n_tokens(self) -> int:
        """One more than the highest id."""
        ...

    @property
    def controls(self) -> Mapping[int, str]:
        """The control tokens and their spelling."""
        ...

    @property
    def drops_first_space(self) -> bool:
        """Whether a text comes back with a space in front that was not in it."""
        ...

    def spans(self, text: str, special: bool, *, is_start: bool = True) -> list[Span]:
        """The tokens of a text. special: control tokens spelled in it are recognised. is_start: without it the text
        goes on behind a control token, where some vocabularies write no space in front.
        """
        ...

    def piece(self, id: int) -> bytes:
        """The bytes a token stands for, empty for an id without a token."""
        ...

    def scores(self) -> list[float]:
        """Of each token: the higher, the sooner it is merged from two."""
        ...


class LibraryVocabulary:
    """Fulfils `Vocabulary` with an encoder of the library."""

    def __init__(self, backend: Backend) -> None:
        added = backend.get_added_tokens_decoder()
        self._added = {id: token.content for id, token in added.items()}
        self.controls: Mapping[int, str] = {id: token.content for id, token in added.items() if token.special}
        self.n_tokens = _n_ids(backend.get_vocab(with_added_tokens=True).values())
        self.drops_first_space = _drops_first_space(backend)
        self._piece_of = byte_level_piece if _is_byte_level(backend) else word_piece
        self._backend = backend
        self._starts = _starts(backend.pre_tokenizer)
        self._lock = Lock()  # recognising control tokens and starts are switches of the backend

    def spans(self, text: str, special: bool, *, is_start: bool = True) -> list[Span]:
        """InputError where the library fails at it: a rule without end, an unknown character and no token for it."""
        with self._lock:
            self._backend.encode_special_tokens = not special
            for step in self._starts:
                step.prepend_scheme = "first" if is_start else "never"
            try:
                encoded = self._backend.encode(text, add_special_tokens=False)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # it raises bare Exceptions, and its panics are not even those
                raise InputError(f"the tokenizer cannot encode this text ({error}); get its files again") from error
        return list(zip(encoded.ids, encoded.offsets, strict=True))

    def piece(self, id: int) -> bytes:
        added = self._added.get(id)
        return added.encode() if added is not None else self._piece_of(self._backend.id_to_token(id) or "")

    def scores(self) -> list[float]:
        if self._piece_of is byte_level_piece:
            return [-float(id) for id in range(self.n_tokens)]  # minus zero for the first, as distributed-llama writes
        model = json.loads(self._backend.to_str())["model"]
        if model["type"] != "BPE":
            raise InputError(
                f"the tokenizer is a {model['type']} model; a .t file can hold BPE only; use the tokenizer as it is"
            )
        scores = [float(-self.n_tokens - len(model.get("merges", [])))] * self.n_tokens  # for what no merge makes
        for rank, merge in reversed(list(enumerate(model.get("merges", [])))):
            joined = "".join(merge if isinstance(merge, list) else merge.split(" ", 1))
            scores[model["vocab"][joined]] = -float(rank)
        return scores


def _n_ids(ids: Collection[int]) -> int:
    """One more than the highest; what is counted by it stays small."""
    n_ids = 1 + max(ids, default=-1)
    if n_ids > 2 * len(ids) + _FEW:
        raise InputError(
            f"the tokenizer has {len(ids)} tokens, but one with the id {n_ids - 1}; expected ids in a row: "
            "it is damaged, get it again"
        )
    return n_ids


def _starts(step: PreTokenizer | None) -> list[Metaspace]:
    """The steps that put a space before the first word of a text only, and not behind a control token: the library
    takes for a start what has the place 0.
    """
    if isinstance(step, Metaspace):
        return [step] if step.prepend_scheme == "first" else []
    if not isinstance(step, Sequence):
        return []
    n_steps = len(json.loads(step.__getstate__())["pretokenizers"])
    return [found for number in range(n_steps) for found in _starts(step[number])]


def _is_byte_level(backend: Backend) -> bool:
    """Whether tokens are spelled in GPT-2's byte alphabet."""
    return any(step["type"] == "ByteLevel" for step in _decoder_steps(backend))


def _drops_first_space(backend: Backend) -> bool:
    """Whether the vocabulary writes a space before the first word, to be dropped at the start of a text."""
    return any(
        (step["type"] == "Strip" and step.get("content") == " " and step.get("start") == 1)
        or (step["type"] == "Metaspace" and step.get("prepend_scheme", "always") != "never")
        for step in _decoder_steps(backend)
    )


def _decoder_steps(backend: Backend) -> list[dict[str, Any]]:
    if backend.decoder is None:
        return []
    decoder: dict[str, Any] = json.loads(backend.decoder.__getstate__())
    steps: list[dict[str, Any]] = decoder.get("decoders", [decoder])
    return steps
