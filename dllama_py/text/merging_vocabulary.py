"""A vocabulary that merges by score: SentencePiece's, and those of `.t` files of which no more is known.

Knows no file format; what is ordinary, a lone byte or a control token is told.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from dllama_py.errors import InputError
from dllama_py.text.added_tokens import AddedTokens, Surroundings
from dllama_py.text.merging import merge_by_score
from dllama_py.text.vocabulary import Span

_SPACE_MARK = "\u2581"  # how SentencePiece writes a space


class Prefix(Enum):
    """Where a space goes in front."""

    NEVER = auto()
    FIRST = auto()  # of what begins the text, unless a space is there
    ALWAYS = auto()  # also of what follows a control token


@dataclass(frozen=True, slots=True)
class MergeRules:
    """tokens: bytes of each id, empty for none. ordinary: ids that merging may yield.

    byte_ids: the token of each lone byte, for characters that are no token; unknown_id: for what has not even these.
    controls are recognised on request and user_defined always.
    """

    tokens: Sequence[bytes]
    scores: Sequence[float]
    ordinary: Sequence[int]
    controls: Mapping[int, str]
    user_defined: Mapping[int, str] = field(default_factory=dict)
    byte_ids: Mapping[int, int] = field(default_factory=dict)
    unknown_id: int | None = None
    sentencepiece: bool = False  # begins from characters, not bytes, and takes U+2581 for a space
    prefix: Prefix = Prefix.NEVER
    single_spaces: bool = False  # runs of spaces count as one, those at the ends as none
    surroundings: Mapping[int, Surroundings] = field(default_factory=dict)  # of control and user's tokens


class MergingVocabulary:
    """Fulfils `Vocabulary`."""

    def __init__(self, rules: MergeRules) -> None:
        self._rules = rules
        self._id_of = {rules.tokens[id]: id for id in reversed(rules.ordinary)}  # of equal ones the first
        self._scores = {token: rules.scores[id] for token, id in self._id_of.items()}
        self._longest = max(map(len, self._id_of), default=0)
        self.n_tokens = len(rules.tokens)
        self.controls = rules.controls
        self.drops_first_space = rules.prefix is not Prefix.NEVER
        every = {**rules.controls, **rules.user_defined}
        self._with_controls = AddedTokens(every, rules.sentencepiece, rules.surroundings)
        self._without_controls = AddedTokens(rules.user_defined, rules.sentencepiece, rules.surroundings)

    def spans(self, text: str, special: bool, *, is_start: bool = True) -> list[Span]:
        found: list[Span] = []
        done = 0
        for id, start, stop in (self._with_controls if special else self._without_controls).spans(text):
            found += self._plain(text[done:start], done, is_start)
            found.append((id, (start, stop)))
            done = stop
        return found + self._plain(text[done:], done, is_start)

    def piece(self, id: int) -> bytes:
        return self._rules.tokens[id] if 0 <= id < self.n_tokens else b""

    def scores(self) -> list[float]:
        return list(self._rules.scores)

    def _plain(self, text: str, offset: int, is_start: bool) -> list[Span]:
        """Tokens of a text without control tokens, which begins at this place of the whole; is_start: of the whole."""
        owner = [offset + place for place, character in enumerate(text) for _ in character.encode()]  # of each byte
        data = text.encode()
        if self._rules.sentencepiece:
            data, owner = self._spaced(text, owner)
            if data and self._is_prefixed(data, is_start and offset == 0):
                data, owner = b" " + data, [owner[0], *owner]
        spans, done = [], 0
        for id, n_bytes in self._tokens(data):
            spans.append((id, (owner[done], owner[done + n_bytes - 1] + 1)))
            done += n_bytes
        return spans

    def _spaced(self, text: str, owner: list[int]) -> tuple[bytes, list[int]]:
        """The bytes with spaces as the vocabulary wants them, and the character that each belongs to."""
        data, places, start = bytearray(), list[int](), 0
        for character in text:
            is_space = character in (" ", _SPACE_MARK)
            n_bytes = len(character.encode())
            if not (is_space and self._rules.single_spaces and (not data or data.endswith(b" "))):
                data += b" " if is_space else character.encode()
                places += owner[start : start + (1 if is_space else n_bytes)]
            start += n_bytes
        if self._rules.single_spaces and data.endswith(b" "):
            del data[-1:], places[-1:]
        return bytes(data), places

    def _is_prefixed(self, data: bytes, is_first: bool) -> bool:
        if self._rules.prefix is Prefix.FIRST:
            return is_first and not data.startswith(b" ")
        return self._rules.prefix is Prefix.ALWAYS

    def _tokens(self, data: bytes) -> list[tuple[int, int]]:
        """(id, number of bytes) of each token; unknown characters in a row are one token."""
        found: list[tuple[int, int]] = []
        for symbol in merge_by_score(self._units(data), self._scores):
            id = self._id_of.get(symbol)
            tokens = self._fallen_back(symbol) if id is None else [(id, len(symbol))]
            if found and tokens[0][0] == found[-1][0] == self._rules.unknown_id:
                tokens = [(found[-1][0], found.pop()[1] + tokens[0][1])]
            found += tokens
        return found

    def _fallen_back(self, symbol: bytes) -> list[tuple[int, int]]:
        ids = [self._rules.byte_ids.get(byte) for byte in symbol]
        if None not in ids:
            return [(id, 1) for id in ids if id is not None]
        if self._rules.unknown_id is None:
            raise InputError(
                f"the tokenizer has no token for {symbol.decode(errors='replace')!r} (bytes {symbol.hex(' ')}); "
                "leave it out, or give the tokenizer that came with the model"
            )
        return [(self._rules.unknown_id, len(symbol))]

    def _units(self, data: bytes) -> list[bytes]:
        """What merging begins with: characters, or the shortest tokens from left to right."""
        if self._rules.sentencepiece:
            return [character.encode() for character in data.decode()]
        units, start = [], 0
        for stop in range(1, len(data) + 1):
            if data[start:stop] in self._id_of or stop - start > self._longest:
                units.append(data[start:stop])
                start = stop
        return [*units, data[start:]] if start < len(data) else units
