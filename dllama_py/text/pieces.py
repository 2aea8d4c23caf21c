"""The bytes that a token stands for, from the text a vocabulary stores for it. Knows no ids and no merges."""

from collections.abc import Callable

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
    if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
        return bytes.fromhex(text[3:5])
    return text.replace("\u2581", " ").encode()
