"""The facts of a tokenizer that a `.t` file can hold. Knows neither that file nor how text is cut into tokens."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenList:
    """tokens: the bytes of each id; scores: float32 values, the higher is merged first. Both have one entry an id.

    The first of eos_ids is the one that a chat template means by its eos token.
    """

    tokens: Sequence[bytes]
    scores: Sequence[float]
    bos_id: int | None
    eos_ids: tuple[int, ...]
    add_bos: bool
    template: str | None = None
