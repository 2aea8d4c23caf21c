"""A Hugging Face folder as a checkpoint: config.json, safetensors shards, and the names tensors have there.

q and k of llama models lie in half-split order there; reading turns them to adjacent pairs, as the `.m` converter
does, so that a folder and its `.m` file hold the same values.
"""

import re
from dataclasses import replace
from pathlib import Path

from dllama_py.blocks import dequantize
from dllama_py.config import Arch, ModelConfig, RopePairs
from dllama_py.errors import InputError
from dllama_py.formats.huggingface_config import read_config
from dllama_py.formats.mapped import MappedCheckpoint, Stored, check_config, check_rows, spec_named
from dllama_py.formats.other_checkpoints import refuse_adapter, refuse_quantised_tensors
from dllama_py.formats.safetensors import Shards, ShardTensor, open_shards, read_json
from dllama_py.formats.tensors import TensorSpec, tensor_specs

_OUTSIDE_LAYERS = {
    "embedding": "model.embed_tokens.weight",
    "final_norm": "model.norm.weight",
    "head": "lm_head.weight",
}
_IN_LAYERS = {
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "q_bias": "self_attn.q_proj",
    "k_bias": "self_attn.k_proj",
    "v_bias": "self_attn.v_proj",
    "o_bias": "self_attn.o_proj",
    "gate": "mlp.{expert}gate_proj",
    "down": "mlp.{expert}down_proj",
    "up": "mlp.{expert}up_proj",
    "router": "mlp.gate",
    "shared_router": "mlp.shared_expert_gate",
    "shared_gate": "mlp.shared_expert.gate_proj",
    "shared_down": "mlp.shared_expert.down_proj",
    "shared_up": "mlp.shared_expert.up_proj",
    "q_norm": "self_attn.q_norm",
    "k_norm": "self_attn.k_norm",
    "attention_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
_IN_MIXTRAL_LAYERS = _IN_LAYERS | {
    "router": "block_sparse_moe.gate",
    "gate": "block_sparse_moe.{expert}w1",
    "down": "block_sparse_moe.{expert}w2",
    "up": "block_sparse_moe.{expert}w3",
}
_TURNED = ("q", "k", "q_bias", "k_bias")
OWN_HEAD = (
    "lm_head.weight differs from the embedding, though config.json says tie_word_embeddings true; the stored "
    "lm_head.weight is used, as transformers 5 and llama.cpp do (transformers 4 used the embedding)"
)
COMPARED_ELEMENTS = 4 << 20  # of the head and the embedding at once
_HARMLESS = re.compile(r"rotary_emb\.inv_freq$")  # tables that are computed anew


def open_folder(folder: Path) -> MappedCheckpoint:
    """A folder with config.json and safetensors as a checkpoint; InputError unless every tensor fits."""
    refuse_adapter(folder)
    if not (folder / "config.json").exists():
        files = [path.name for kind in ("*.gguf", "*.m") for path in sorted(folder.glob(kind))]
        named = f"name one of its files ({', '.join(files)})" if files else "give the folder of a checkpoint, or a file"
        raise InputError(f"{folder}: has no config.json, so it is no Hugging Face checkpoint; {named}")
    values = read_json(folder / "config.json")
    config, omitted = read_config(folder / "config.json", values)
    check_config(folder, config)
    shards = open_shards(folder)
    in_layers = _IN_MIXTRAL_LAYERS if config.arch is Arch.MIXTRAL else _IN_LAYERS
    names = {spec: _hf_name(spec, in_layers) for spec in tensor_specs(config)}
    _refuse_unused(folder, config, shards, set(names.values()))
    if _OUTSIDE_LAYERS["head"] not in shards.tensors:
        _check_tied(folder, values.get("tie_word_embeddings"))
        names = {spec: _OUTSIDE_LAYERS["embedding"] if spec.role == "head" else name for spec, name in names.items()}
    stored = {spec.name: _stored(folder, config, spec, name, shards.tensors) for spec, name in names.items()}
    checkpoint = MappedCheckpoint(folder, config, stored, shards.files, omitted, shards.notes)
    if values.get("tie_word_embeddings") is True and not _head_is_embedding(checkpoint):
        return replace(checkpoint, notes=(*shards.notes, f"{folder}: {OWN_HEAD}"))
    return checkpoint


def _hf_name(spec: TensorSpec, in_layers: dict[str, str]) -> str:
    if spec.layer is None:
        return _OUTSIDE_LAYERS[spec.role]
    expert = "" if spec.expert is None else f"experts.{spec.expert}."
    kind = "bias" if spec.role.endswith("_bias") else "weight"
    return f"model.layers.{spec.layer}.{in_layers[spec.role].format(expert=expert)}.{kind}"


def _refuse_unused(folder: Path, config: ModelConfig, shards: Shards, known: set[str]) -> None:
    unused = sorted(name for name in shards.tensors.keys() - known if not _HARMLESS.search(name))
    if not unused:
        return
    refuse_quantised_tensors(folder, unused)
    more = f" and {len(unused) - 3} more" if len(unused) > 3 else ""
    raise InputError(
        f"{folder}: tensors {', '.join(unused[:3])}{more} are no part of a {config.arch} model of "
        f"{config.n_layers} layers; nothing computes them, the model would answer wrongly"
    )


def _check_tied(folder: Path, tied: object) -> None:
    if tied is False:
        raise InputError(
            f"{folder}: lm_head.weight is missing, though config.json says tie_word_embeddings false; get all shards"
        )


def _head_is_embedding(checkpoint: MappedCheckpoint) -> bool:
    """By their values: many a folder has the one table twice. Only a head that is stored in spite of the flag, or is
    another one, is read for this."""
    if checkpoint.is_tied:
        return True
    head, embedding = (spec_named(checkpoint.config, name) for name in ("head", "embedding"))
    n_rows, n_columns = head.matrix_shape
    step = max(COMPARED_ELEMENTS // n_columns, 1)
    rows = ((start, min(start + step, n_rows)) for start in range(0, n_rows, step))
    is_same = all(_values(checkpoint, head, *part) == _values(checkpoint, embedding, *part) for part in rows)
    checkpoint.release()
    return is_same


def _values(checkpoint: MappedCheckpoint, spec: TensorSpec, start: int, stop: int) -> bytes:
    """Of these rows, as float32."""
    return dequantize(checkpoint.read(spec, start, stop), checkpoint.float_type(spec)).tobytes()


def _stored(folder: Path, config: ModelConfig, spec: TensorSpec, name: str, tensors: dict[str, ShardTensor]) -> Stored:
    tensor = tensors.get(name)
    if tensor is None:
        raise InputError(f"{folder}: tensor {name} is missing; get all files of the checkpoint again")
    if tensor.shape != spec.shape:
        raise InputError(
            f"{folder}: {name} has shape {list(tensor.shape)}, config.json makes it {list(spec.shape)} "
            f"({config.n_heads} heads of {config.head_width}, {config.n_kv_heads} for keys); one of them is wrong"
        )
    kind = tensor.float_type(name)
    check_rows(folder, spec, kind)
    turned = config.rope_pairs is RopePairs.ADJACENT and spec.role in _TURNED
    return Stored(tensor.file, tensor.offset, kind, config.head_width if turned else 0)
