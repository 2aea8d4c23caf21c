"""distributed-llama's tokenizer file `.t`, today's and the legacy form, to and from a list of tokens.

Knows where the numbers lie; what the tokens mean for a text is the text room's matter.
"""

import math
import struct
from enum import IntEnum
from pathlib import Path

from dllama_py.errors import InputError
from dllama_py.formats.mapped import MappedFile
from dllama_py.token_list import TokenList

MAGIC = b"\x24\x71\x56\x00"
LEGACY_MAGIC = b"\x23\x71\x56\x00"
PREFIX_BYTES = 8  # magic and header size
_RECORD = struct.Struct("<fI")  # score and length; the token's bytes follow
_VERSION = 1
_MOST_PAIRS = 1000  # eleven keys are known; end tokens of the oldest files may repeat


class Key(IntEnum):
    """Header keys, in the order in which distributed-llama's converter writes them; then those it once wrote."""

    BOS_ID = 3
    VERSION = 0
    VOCAB_SIZE = 1
    MAX_TOKEN_BYTES = 2
    TEMPLATE_BYTES = 7
    N_EOS = 9
    ADD_BOS = 10
    EOS_ID = 4
    PAD_ID = 5
    CHAT_EOS_ID = 6
    CHAT_STOP_BYTES = 8


def is_tokenizer_file(path: Path) -> bool:
    """Whether the first bytes are those of a `.t` file; False also where there is no such file."""
    if not path.is_file():
        return False
    file = MappedFile(path)
    return file.read(0, min(4, file.size)) in (MAGIC, LEGACY_MAGIC)


def read_tokenizer_file(path: Path) -> TokenList:
    """InputError, in one line, where the file is cut short or says what cannot be. Bytes after the last token are
    ignored. Files too old to say so begin a text with the begin token, as the programs of their time did.
    """
    file = MappedFile(path)
    magic = file.read(0, 4)
    if magic == LEGACY_MAGIC:
        return _read_legacy(file)
    if magic != MAGIC:
        raise InputError(
            f"{path}: starts with the bytes {magic.hex(' ')}, a .t file with {MAGIC.hex(' ')}; give another"
        )
    return _read_current(file)


def tokenizer_file_bytes(tokens: TokenList) -> bytes:
    """The file that distributed-llama's converter writes for these tokens; InputError for what it cannot hold."""
    empty = next((id for id, token in enumerate(tokens.tokens) if not token), None)
    if empty is not None or not tokens.tokens:
        raise InputError(f"token {empty or 0} is empty, and a .t file holds no empty token; the vocabulary has a gap")
    if tokens.bos_id is None:
        raise InputError(
            "the tokenizer has no begin token, and a .t file must name one; set bos_token_id in config.json"
        )
    outside = next((id for id in (tokens.bos_id, *tokens.eos_ids) if not 0 <= id < len(tokens.tokens)), None)
    if outside is not None:
        raise InputError(
            f"the model's settings name {outside} as begin or end token; its tokenizer has ids 0 to "
            f"{len(tokens.tokens) - 1}; take tokenizer and settings from the same model"
        )
    template = (tokens.template or "").encode()
    values = {
        Key.BOS_ID: tokens.bos_id,
        Key.VERSION: _VERSION,
        Key.VOCAB_SIZE: len(tokens.tokens),
        Key.MAX_TOKEN_BYTES: max(map(len, tokens.tokens)),
        Key.N_EOS: len(tokens.eos_ids),
        Key.ADD_BOS: int(tokens.add_bos),
    }
    if template:
        values[Key.TEMPLATE_BYTES] = len(template)
    pairs = b"".join(struct.pack("<ii", key, values[key]) for key in Key if key in values)
    records = (
        _RECORD.pack(score, len(token)) + token for score, token in zip(tokens.scores, tokens.tokens, strict=True)
    )
    eos = struct.pack(f"<{len(tokens.eos_ids)}i", *tokens.eos_ids)
    return MAGIC + struct.pack("<i", PREFIX_BYTES + len(pairs)) + pairs + template + eos + b"".join(records)


def _read_current(file: MappedFile) -> TokenList:
    (header_bytes,) = struct.unpack("<i", file.read(4, 4))
    n_pairs, rest = divmod(header_bytes - PREFIX_BYTES, 8)
    if rest or not 0 < n_pairs <= _MOST_PAIRS:
        raise InputError(f"{file.path}: a header of {header_bytes} bytes cannot be; the file is damaged, get it again")
    pairs = _pairs(file, file.read(PREFIX_BYTES, 8 * n_pairs))
    value = dict(pairs)
    if value.get(Key.VERSION) != _VERSION:
        raise InputError(
            f"{file.path}: has version {value.get(Key.VERSION, 'none')} of the tokenizer format, only {_VERSION} can "
            "be read; get the file again, or convert it again from the model's folder"
        )
    lengths = [value.get(key, 0) for key in (Key.TEMPLATE_BYTES, Key.CHAT_STOP_BYTES, Key.N_EOS)]
    if min(lengths) < 0:
        raise InputError(f"{file.path}: the header holds a negative length {min(lengths)}; the file is damaged")
    template_bytes, stop_bytes, n_eos = lengths
    template = file.read(header_bytes, template_bytes)
    place = header_bytes + template_bytes + stop_bytes  # the stop text of old files repeats an end token
    eos_ids = [number for key, number in pairs if key in (Key.EOS_ID, Key.CHAT_EOS_ID)]
    eos_ids += struct.unpack(f"<{n_eos}i", file.read(place, 4 * n_eos))
    tokens, scores = _records(file, place + 4 * n_eos, value.get(Key.VOCAB_SIZE, 0))
    return _checked(
        file,
        TokenList(
            tokens,
            scores,
            value.get(Key.BOS_ID, -1),
            tuple(dict.fromkeys(eos_ids)),
            value.get(Key.ADD_BOS, 1) == 1,
            _text(file, template) or None,
        ),
    )


def _read_legacy(file: MappedFile) -> TokenList:
    vocab_size, _, bos_id, eos_id, _ = struct.unpack("<5i", file.read(4, 20))
    tokens, scores = _records(file, 24, vocab_size)
    return _checked(file, TokenList(tokens, scores, bos_id, (eos_id,) if eos_id >= 0 else (), add_bos=True))


def _pairs(file: MappedFile, data: bytes) -> list[tuple[Key, int]]:
    pairs = []
    for number, value in struct.iter_unpack("<ii", data):
        try:
            pairs.append((Key(number), value))
        except ValueError:
            raise InputError(
                f"{file.path}: header key {number} (value {value}) is not known, keys 0 to 10 are; "
                "the file is damaged or newer than this program"
            ) from None
    return pairs


def _records(file: MappedFile, offset: int, n_tokens: int) -> tuple[list[bytes], list[float]]:
    if not 0 < n_tokens <= (file.size - offset) // (_RECORD.size + 1):
        raise InputError(
            f"{file.path}: {n_tokens} tokens do not fit into the file's {file.size} bytes; "
            "it was cut short or is damaged, get it again"
        )
    data, tokens, scores = file.buffer, [], []
    for id in range(n_tokens):
        start = offset + _RECORD.size
        score, length = _RECORD.unpack(file.read(offset, _RECORD.size))
        offset = start + length
        if length == 0 or not math.isfinite(score):
            raise InputError(
                f"{file.path}: token {id} of {n_tokens} has {length} bytes and the score {score}; "
                "expected at least one byte and a number; the file is damaged, get it again"
            )
        if offset > file.size:
            raise InputError(f"{file.path}: ends within token {id} of {n_tokens}; it was cut short, get it again")
        tokens.append(bytes(data[start:offset]))
        scores.append(score)
    return tokens, scores


def _checked(file: MappedFile, found: TokenList) -> TokenList:
    """A begin id of -1 means none."""
    n_tokens = len(found.tokens)
    for id in (found.bos_id or 0, *found.eos_ids):
        if not -1 <= id < n_tokens or (id == -1 and id in found.eos_ids):
            raise InputError(f"{file.path}: names token {id} as begin or end, it has 0 to {n_tokens - 1}; get it again")
    bos_id = None if found.bos_id == -1 else found.bos_id
    return TokenList(found.tokens, found.scores, bos_id, found.eos_ids, found.add_bos, found.template)


def _text(file: MappedFile, template: bytes) -> str:
    try:
        return template.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file.path}: byte {error.start} of its chat template is no UTF-8; the file is damaged, get it again"
        ) from None
