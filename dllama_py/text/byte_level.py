"""A byte-level BPE for the library's encoder, from tokens, merges and the rule that splits text. Knows no file."""

from collections.abc import Iterable, Mapping

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend
from tokenizers.decoders import ByteLevel
from tokenizers.models import BPE

from dllama_py.text.pre_tokenizers import SplitRule


def byte_level_backend(vocab: Mapping[str, int], merges: Iterable[tuple[str, str]], rule: SplitRule) -> Backend:
    """vocab: ids by tokens in GPT-2's byte alphabet. A merge of unknown tokens is a bare Exception of the library."""
    backend = Backend(BPE(vocab=dict(vocab), merges=list(merges), ignore_merges=rule.ignore_merges))
    backend.normalizer = rule.normalizer()
    backend.pre_tokenizer = rule.pre_tokenizer()
    backend.decoder = ByteLevel()
    return backend


def add_tokens(backend: Backend, texts: Iterable[tuple[str, bool]]) -> None:
    """(text, whether it is a control token) in the order of their ids, all in one call: each takes time for all before.

    Control tokens can be switched off while encoding; the user's are always recognised.
    """
    backend.add_tokens([AddedToken(text, special=is_control, normalized=False) for text, is_control in texts])
