"""Hugging Face folders that hold something that is not computed: told by what it is, with what would run instead."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from dllama_py.errors import InputError
from dllama_py.formats.safetensors import read_json

_READABLE = (
    "bf16, f16 and f32 checkpoints can be, and GGUF files with Q4_0 to Q8_0, Q2_K to Q6_K, IQ1 to IQ4 or MXFP4: "
    "get one of these of the same model"
)
_AS_GGUF = {
    "gemma3": "gemma3 runs from a GGUF file, as `launch.py gemma3_270m` fetches one",
    "gemma3_text": "gemma3 runs from a GGUF file, as `launch.py gemma3_270m` fetches one",
    "gpt_oss": "gpt-oss runs from a GGUF file; get the model as one",
}
_SETTINGS = {"quantize_config.json": "gptq", "quant_config.json": "awq", "hf_quant_config.json": "modelopt"}
_TENSORS = {  # ends of the names of tensors that only such checkpoints have
    (".qweight", ".qzeros", ".g_idx"): "gptq or awq",
    (
        ".absmax",
        ".quant_map",
        ".SCB",
        ".quant_state.bitsandbytes__nf4",
        ".quant_state.bitsandbytes__fp4",
    ): "bitsandbytes",
    (".weight_packed", ".weight_shape"): "compressed-tensors",
    (".weight_scale_inv", ".weight_scale", ".input_scale"): "fp8",
    (".W_q",): "hqq",
    (".scales", ".biases"): "mlx",
}
_DETAILS = (
    *("bits", "w_bit", "load_in_4bit", "load_in_8bit", "bnb_4bit_quant_type", "group_size", "q_group_size"),
    *("format", "fmt", "quant_algo"),
)


def instead_of(model_type: Any) -> str:
    """How a model runs whose folder does not; empty where it does not run at all."""
    told = _AS_GGUF.get(model_type) if isinstance(model_type, str) else None
    return f"; {told}" if told else ""


def refuse_quantised(path: Path, values: Mapping[str, Any]) -> None:
    """By the entries of a config.json, or the files beside it. InputError with the method and what is known of it."""
    found, method = values.get("quantization_config"), "unknown"
    if not found and values.get("quantization"):
        found, method = values["quantization"], "mlx"
    elif found and values.get("quantization"):
        method = "mlx"  # which writes both
    beside = next((name for name in _SETTINGS if (path.parent / name).is_file()), None)
    if not found and beside is not None:
        found, method = read_json(path.parent / beside), _SETTINGS[beside]
    if found:
        facts = found if isinstance(found, dict) else {}
        raise _quantised(path, str(facts.get("quant_method") or method), facts)


def refuse_quantised_tensors(folder: Path, unused: Collection[str]) -> None:
    """By the names of tensors that a config.json says nothing of."""
    for ends, method in _TENSORS.items():
        if any(name.endswith(ends) for name in unused):
            raise _quantised(folder, method, {})
    if any(".lora_A." in name for name in unused):
        raise InputError(f"{folder}: holds LoRA adapters; {_merged('its model')}")


def refuse_adapter(folder: Path) -> None:
    """A folder of a LoRA adapter alone."""
    if not (folder / "adapter_config.json").is_file():
        return
    if any(not path.name.startswith("adapter") for path in folder.glob("*.safetensors")):
        return
    base = read_json(folder / "adapter_config.json").get("base_model_name_or_path")
    whose = str(base)[:80] if base else "its model"
    raise InputError(f"{folder}: is a LoRA adapter of {whose}, not a model; {_merged(whose)}")


def _merged(whose: str) -> str:
    return f"merge it into {whose} with peft's merge_and_unload, and give the folder of the result"


def _quantised(path: Path, method: str, facts: Mapping[str, Any]) -> InputError:
    known = ", ".join(f"{name} {facts[name]}" for name in _DETAILS if facts.get(name) not in (None, False))
    of = f" ({known[:80]})" if known else ""
    return InputError(f"{path}: the checkpoint is quantised by {method}, which cannot be read{of}; {_READABLE}")
