"""A SentencePiece vocabulary of the BPE kind with byte fallback, from its pieces. Knows no file."""

from collections.abc import Mapping, Sequence
from enum import IntEnum

from dllama_py.errors import InputError
from dllama_py.text.added_tokens import Surroundings
from dllama_py.text.merging_vocabulary import MergeRules, MergingVocabulary, Prefix
from dllama_py.text.pieces import lone_byte, spaced, word_piece


class PieceType(IntEnum):
    """The same numbers in tokenizer.model and in tokenizer.ggml.token_type."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


def sentencepiece_vocabulary(
    pieces: Sequence[str],
    scores: Sequence[float],
    types: Sequence[int],
    *,
    prefix: Prefix,
    single_spaces: bool = False,
    surroundings: Mapping[int, Surroundings] | None = None,
) -> MergingVocabulary:
    """Encodes as SentencePiece does, and around added tokens as llama.cpp and Hugging Face do."""

    def of_type(*wanted: PieceType) -> list[int]:
        return [id for id, kind in enumerate(types) if kind in wanted]

    normal = of_type(PieceType.NORMAL)
    lone = [*of_type(PieceType.BYTE), *(id for id in normal if lone_byte(pieces[id]) is not None)]  # some say normal
    user_defined = {id: spaced(pieces[id]) for id in of_type(PieceType.USER_DEFINED) if pieces[id]}
    literal = {id: pieces[id] for id in of_type(PieceType.CONTROL, PieceType.UNKNOWN)} | user_defined
    tokens = [literal[id].encode() if id in literal else word_piece(piece) for id, piece in enumerate(pieces)]
    return MergingVocabulary(
        MergeRules(
            tokens,
            scores,
            [id for id in normal if lone_byte(pieces[id]) is None],
            controls={id: pieces[id] for id in of_type(PieceType.CONTROL, PieceType.UNKNOWN) if pieces[id]},
            user_defined=user_defined,  # also the runs of spaces that Gemma has
            byte_ids={_byte(id, pieces[id]): id for id in lone},
            unknown_id=next(iter(of_type(PieceType.UNKNOWN)), None),
            sentencepiece=True,
            prefix=prefix,
            single_spaces=single_spaces,
            surroundings=surroundings or {},
        )
    )


def _byte(id: int, piece: str) -> int:
    byte = lone_byte(piece)
    if byte is None:
        raise InputError(
            f"token {id} is {piece!r} and said to be a byte; expected the form <0x0A>; the tokenizer is damaged"
        )
    return byte
