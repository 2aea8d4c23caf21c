"""A vocabulary from the list of tokens of a `.t` file. Knows what such a file leaves open, not the file.

It does not say which tokens are control tokens. distributed-llama takes the begin token and all after it; where text
could not be spelled with those before it (SentencePiece and SmolLM2 have it at the front), they are what stands
before the first token of one byte.
"""

from collections.abc import Sequence

from dllama_py.text.byte_level import add_tokens, byte_level_backend
from dllama_py.text.control_tokens import has_control_look, is_mislabelled, is_word
from dllama_py.text.known_vocabularies import known_rule, ranked_merges
from dllama_py.text.merging_vocabulary import MergeRules, MergingVocabulary, Prefix
from dllama_py.text.pieces import byte_level_text
from dllama_py.text.pre_tokenizers import SplitRule
from dllama_py.text.special_ids import SpecialIds
from dllama_py.text.vocabulary import LibraryVocabulary, Vocabulary
from dllama_py.token_list import TokenList


def from_token_list(stored: TokenList) -> tuple[Vocabulary, SpecialIds]:
    """Ids follow Hugging Face for known vocabularies, else distributed-llama's merge by score."""
    special_ids = SpecialIds(
        stored.bos_id,
        stored.add_bos and stored.bos_id is not None,
        stored.eos_ids[0] if stored.eos_ids else None,
        frozenset(stored.eos_ids),
    )
    return _vocabulary(stored), special_ids


def _vocabulary(stored: TokenList) -> Vocabulary:
    tokens = stored.tokens
    first_byte = next((id for id, token in enumerate(tokens) if len(token) == 1), len(tokens))
    if stored.bos_id is not None and stored.bos_id > first_byte:
        ordinary, special = range(stored.bos_id), range(stored.bos_id, len(tokens))
    else:
        ordinary, special = range(first_byte, len(tokens)), range(first_byte)
    if special.start == 0 and _has_byte_tokens(tokens, first_byte):
        return _sentencepiece(stored, first_byte)
    rule = known_rule(tokens[ordinary.start : ordinary.stop])
    ranked = None if rule is None else _ranked(stored, ordinary, special, rule)
    return ranked or _scored(stored, ordinary, special)


def _ranked(stored: TokenList, ordinary: range, special: range, rule: SplitRule) -> Vocabulary | None:
    """None where special tokens are not all different, so that the library cannot tell them apart.

    At the front, control tokens are all there is; behind the ordinary ones a family adds also words that anybody may
    write, so there the look decides, and what the file names.
    """
    tokens = stored.tokens
    vocab = {byte_level_text(tokens[id]): id for id in ordinary}
    texts = [tokens[id].decode(errors="replace") for id in special]
    if len({*vocab, *texts}) != len(tokens):
        return None
    in_front = {text: id for id, text in enumerate(texts) if id < ordinary.start}
    named = {tokens[id].decode(errors="replace") for id in (stored.bos_id, *stored.eos_ids) if id is not None}
    named = {text for text in named if not is_word(text)}
    backend = byte_level_backend(in_front | vocab, ranked_merges(vocab), rule)
    added = [(text, text in in_front or text in named or has_control_look(text)) for text in texts]
    add_tokens(backend, [*added, *((text, True) for text in sorted(named & vocab.keys()))])
    return LibraryVocabulary(backend)


def _scored(stored: TokenList, ordinary: range, special: range) -> Vocabulary:
    controls = _controls(stored, special)
    return MergingVocabulary(
        MergeRules(stored.tokens, stored.scores, [id for id in ordinary if id not in controls], controls)
    )


def _controls(stored: TokenList, special: range) -> dict[int, str]:
    """The special ones, every end token, and ordinary ones that can be nothing else."""
    others = (id for id in range(len(stored.tokens)) if id not in special)
    found = [id for id in others if id in stored.eos_ids or is_mislabelled(stored.tokens[id].decode(errors="replace"))]
    return _texts(stored.tokens, [*special, *found])


def _has_byte_tokens(tokens: Sequence[bytes], first: int) -> bool:
    """SentencePiece with byte fallback has the 256 bytes in a row, before its pieces."""
    return list(tokens[first : first + 256]) == [bytes([byte]) for byte in range(256)]


def _sentencepiece(stored: TokenList, first_byte: int) -> Vocabulary:
    controls = _controls(stored, range(first_byte))
    ordinary = [id for id in range(first_byte + 256, len(stored.tokens)) if id not in controls]
    byte_ids = {byte: first_byte + byte for byte in range(256)}
    return MergingVocabulary(
        MergeRules(
            stored.tokens,
            stored.scores,
            ordinary,
            controls,
            byte_ids=byte_ids,
            sentencepiece=True,
            prefix=Prefix.ALWAYS,
        )
    )


def _texts(tokens: Sequence[bytes], ids: Sequence[int]) -> dict[int, str]:
    """Their spelling, without those that are no UTF-8: nobody can write them."""
    spelled = {id: tokens[id].decode(errors="ignore") for id in ids}
    return {id: text for id, text in spelled.items() if text.encode() == tokens[id]}
