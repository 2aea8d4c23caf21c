"""Which files of a repository make up a model: one GGUF, or a folder of config, tokenizer and safetensors."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from dllama_py.cluster.remote import RemoteFile
from dllama_py.errors import UsageError
from dllama_py.sizes import size

FOLDER_FILES = {
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "model.safetensors.index.json",
}
_SPLIT = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf", re.IGNORECASE)
_WEIGHTS = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors")
_MOST_NAMED = 12


def choose_gguf(repository: str, files: Sequence[RemoteFile], wanted: str) -> tuple[RemoteFile, ...]:
    """The GGUF called `wanted`, or the only one whose name has `wanted` in it; all parts if it is split.

    UsageError says which there are.
    """
    groups = _gguf_groups(files)
    exact = [group for group in groups if wanted in {name for file in group for name in _names(file)}]
    found = exact or [group for group in groups if wanted.lower() in group[0].name.lower()]
    if len(found) == 1:
        return found[0]
    if not groups:
        raise UsageError(f"{repository} has no GGUF file; leave {':' + wanted!r} out to fetch its safetensors")
    what = "several GGUF files fit" if found else "no GGUF file fits"
    raise UsageError(f"{repository}: {what} {wanted!r}; name one of: {_listed(found or groups)}")


def choose_folder(repository: str, files: Sequence[RemoteFile]) -> tuple[RemoteFile, ...]:
    """Config, tokenizer and weights of a Hugging Face folder. UsageError if that is not what the repository holds."""
    names = {file.name for file in files}
    weights = {name for name in names if _WEIGHTS.fullmatch(name)} or {
        name for name in names if "/" not in name and name.endswith(".safetensors")
    }
    if weights and "config.json" in names:
        return tuple(file for file in files if file.name in FOLDER_FILES | weights)
    groups = _gguf_groups(files)
    if groups:
        raise UsageError(f"{repository} holds GGUF files; name one, as {repository}:FILE, of: {_listed(groups)}")
    raise UsageError(
        f"{repository} has neither GGUF files nor config.json with safetensors; expected one of both (weights in "
        "other formats, as .bin, can be anything, programs too, and are not read)"
    )


def _gguf_groups(files: Sequence[RemoteFile]) -> list[tuple[RemoteFile, ...]]:
    """Parts of one split GGUF together, in order; every other GGUF for itself."""
    groups: dict[str, list[RemoteFile]] = {}
    for file in sorted(files, key=lambda file: file.name):
        if file.name.lower().endswith(".gguf"):
            split = _SPLIT.fullmatch(file.name)
            groups.setdefault(f"{split[1]}-of-{split[3]}" if split else file.name, []).append(file)
    return [tuple(group) for group in groups.values()]


def stem_of(name: str) -> str:
    """The name of a GGUF file without its ending and the number of a part."""
    split = _SPLIT.fullmatch(name)
    return split[1] if split else PurePosixPath(name).stem


def _names(file: RemoteFile) -> tuple[str, str]:
    return file.name, PurePosixPath(file.name).name


def _listed(groups: Sequence[tuple[RemoteFile, ...]]) -> str:
    shown = [f"{group[0].name} ({size(sum(file.n_bytes for file in group))})" for group in groups[:_MOST_NAMED]]
    return ", ".join(shown) + (f" and {len(groups) - _MOST_NAMED} more" if len(groups) > _MOST_NAMED else "")
