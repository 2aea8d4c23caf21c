"""An encoder from a Hugging Face tokenizer.json and the settings beside it."""

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from dllama_py.errors import InputError
from dllama_py.text.control_tokens import has_control_look, is_word
from dllama_py.text.special_ids import HuggingFaceSettings, SpecialIds, end_ids, from_settings
from dllama_py.text.vocabulary import LibraryVocabulary, Vocabulary


def from_json(data: bytes, settings: HuggingFaceSettings) -> tuple[Vocabulary, SpecialIds]:
    """InputError if the bytes are not a tokenizer.json or the settings name unknown tokens."""
    try:
        backend = Backend.from_buffer(data)
    except Exception as error:  # the library raises a bare Exception
        raise InputError(f"tokenizer.json cannot be read: {error}; copy it again from the model's page") from error
    _mark_control_tokens(backend, settings)
    backend.no_truncation()
    backend.no_padding()
    return LibraryVocabulary(backend), from_settings(settings, backend.token_to_id, backend.encode("").ids)


def _mark_control_tokens(backend: Backend, settings: HuggingFaceSettings) -> None:
    """Those with their look, and those that the settings name, as transformers does when it loads a folder."""
    added = backend.get_added_tokens_decoder()
    named = {text for text in settings.control_texts() if not is_word(text)}
    named |= {text for id in end_ids(settings) if (text := backend.id_to_token(id)) and not is_word(text)}
    wanted = [token for token in added.values() if token.content in named or has_control_look(token.content)]
    ordinary = sorted(
        named - {token.content for token in added.values()}, key=lambda text: backend.token_to_id(text) or 0
    )
    backend.add_special_tokens(
        [
            AddedToken(
                token.content,
                special=True,
                normalized=token.normalized,
                single_word=token.single_word,
                lstrip=token.lstrip,
                rstrip=token.rstrip,
            )
            for token in wanted
            if not token.special
        ]
        + [
            AddedToken(text, special=True, normalized=False)
            for text in ordinary
            if backend.token_to_id(text) is not None
        ]
    )
