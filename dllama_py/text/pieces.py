"""The bytes that a token stands for, from the text a vocabulary stores for it. Knows no ids and no merges."""

import re
from collections.abc import Callable

_LONE_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
Piece = Callable[[str], bytes]


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in for each byte: itself where printable in Latin-1, else 256 and up, ascending."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    return alphabet | {chr(256 + place): byte for place, byte in enumerate(others)}


BYTE_OF = _byte_alphabet()
_LETTER_OF = {byte: letter for letter, byte in BYTE_OF.items()}


def byte_level_piece(text: str) -> bytes:
    """Bytes of a byte-level token; a character outside the alphabet stands for its own UTF-8."""
    try:
        return bytes([BYTE_OF[character] for character in text])
    except KeyError:
        return text.encode()


def byte_level_text(piece: bytes) -> str:
    """A token's bytes in GPT-2's byte alphabet."""
    return "".join([_LETTER_OF[byte] for byte in piece])


def word_piece(text: str) -> bytes:
    """Bytes of a token whose spaces are written U+2581 and whose lone bytes are written <0xF0>."""
    byte = lone_byte(text)
    return spaced(text).encode() if byte is None else bytes([byte])


def spaced(text: str) -> str:
    """A token's text with the spaces that SentencePiece writes U+2581."""
    return text.replace("\u2581", " ")


def lone_byte(text: str) -> int | None:
    """The byte that <0xF0> stands for, None for any other text."""
    match = _LONE_BYTE.fullmatch(text)
    return None if match is None else int(match[1], 16)
