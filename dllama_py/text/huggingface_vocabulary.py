"""An encoder from a Hugging Face tokenizer.json and the settings beside it."""

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from dllama_py.errors import InputError
from dllama_py.text.special_ids import HuggingFaceSettings, SpecialIds, from_settings, has_control_look
from dllama_py.text.vocabulary import LibraryVocabulary, Vocabulary


def from_json(data: bytes, settings: HuggingFaceSettings) -> tuple[Vocabulary, SpecialIds]:
    """InputError if the bytes are not a tokenizer.json or the settings name unknown tokens."""
    try:
        backend = Backend.from_buffer(data)
    except Exception as error:  # the library raises a bare Exception
        raise InputError(f"tokenizer.json cannot be read: {error}; copy it again from the model's page") from error
    _mark_control_tokens(backend)
    backend.no_truncation()
    backend.no_padding()
    return LibraryVocabulary(backend), from_settings(settings, backend.token_to_id, backend.encode("").ids)


def _mark_control_tokens(backend: Backend) -> None:
    tokens = backend.get_added_tokens_decoder().values()
    backend.add_special_tokens(
        [
            AddedToken(token.content, special=True, normalized=False, lstrip=token.lstrip, rstrip=token.rstrip)
            for token in tokens
            if not token.special and has_control_look(token.content)
        ]
    )
