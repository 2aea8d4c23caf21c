"""Files that people give for a model and that are none: said by name, with the way out."""

from dllama_py.errors import InputError
from dllama_py.formats.mapped import MappedFile

_LFS = "is a Git LFS pointer, not the file itself; run `git lfs pull` or download the file again"
_HTML = "is a web page, not the file itself; the download went wrong, get the file again"
_OLD_MODEL = "is an old model format that is not supported; convert the model again"

_STARTS = {
    b"version https://git-lfs": _LFS,
    b"<!DOCTYPE": _HTML,
    b"<!doctype": _HTML,
    b"<html": _HTML,
    b"<HTML": _HTML,
    b"\x00\xcd\xab\x00": _OLD_MODEL,
    b"\x01\xcd\xab\x00": _OLD_MODEL,
    b"\x0a\x00\xab\xcd": "is a big-endian model file; convert the model again on a little-endian machine",
    b"\x24\x71\x56\x00": "is a tokenizer file; give it to --tokenizer",
    b"\x23\x71\x56\x00": "is an old tokenizer file, not a model",
    b"PK\x03\x04": "is a zip archive (perhaps a PyTorch checkpoint); safetensors folders, GGUF and .m work",
    b"\x80\x02": "is a Python pickle (perhaps a PyTorch checkpoint); safetensors folders, GGUF and .m work",
    b"\x1f\x8b": "is a gzip archive; unpack it first",
    b"ggml": "is an old ggml file; get the model as GGUF",
    b"lmgg": "is an old ggml file; get the model as GGUF",
    b"tjgg": "is an old ggml file; get the model as GGUF",
    b"fmgg": "is an old ggml file; get the model as GGUF",
}


def refuse_stranger(file: MappedFile) -> None:
    """InputError if the first bytes are those of something that is known not to be a model."""
    refuse_stranger_shard(file)
    start = file.read(0, min(16, file.size))
    if start[8:9] == b"{" and int.from_bytes(start[:8], "little") < file.size:
        raise InputError(f"{file.path}: is one file of a Hugging Face checkpoint; give the folder that holds it")


def refuse_stranger_shard(file: MappedFile) -> None:
    """The same for a file of which only a folder's index says what it is."""
    if file.size == 0:
        raise InputError(f"{file.path}: the file is empty; get it again")
    start = file.read(0, min(64, file.size))
    if start[8:9] == b"{":
        return  # a safetensors header, whose length may look like any magic
    text = start.lstrip(b"\xef\xbb\xbf \r\n\t")
    for magic, says in _STARTS.items():
        if start.startswith(magic) or text.startswith(magic):
            raise InputError(f"{file.path}: {says}")
