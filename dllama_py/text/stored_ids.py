"""Begin and end ids as distributed-llama's converter stores them for a Hugging Face folder. Knows no vocabulary."""

from dataclasses import replace

from dllama_py.text.special_ids import HuggingFaceSettings, end_ids_in, first_id
from dllama_py.token_list import TokenList


def with_folder_ids(stored: TokenList, settings: HuggingFaceSettings) -> TokenList:
    """The same list, with ids from config.json first: its begin token counts also where the tokenizer has none, and the
    first of its end tokens ends a turn in distributed-llama. End tokens that only other files name follow.

    The begin token goes before a text unless `add_bos_token` says no.
    """
    bos_id = first_id(settings.config.get("bos_token_id"))
    eos_ids = dict.fromkeys([*end_ids_in(settings.config), *stored.eos_ids])
    add_bos = settings.tokenizer_config.get("add_bos_token")
    return replace(
        stored,
        bos_id=stored.bos_id if bos_id is None else bos_id,
        eos_ids=tuple(eos_ids),
        add_bos=True if add_bos is None else bool(add_bos),
    )
