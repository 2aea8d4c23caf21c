# python -m pytest tests/formats/test_other_checkpoints.py
"""Folders that hold something else than a model that runs: what it is, and what to do instead."""

import json
import re
import struct
from pathlib import Path
from typing import Any

import gguf
import pytest

from dllama_py.blocks import FloatType
from dllama_py.errors import InputError
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.formats.other_checkpoints import _READABLE
from dllama_py.troubleshooting import row_of
from tests.checkpoints import change_config, own_folder


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        open_checkpoint(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"}
MLX = {"group_size": 64, "bits": 4}


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}},
            "gptq.*bits 4, group_size 128",
        ),
        ({"quantization_config": AWQ}, "awq.*bits 4, group_size 128"),
        ({"quantization_config": {"quant_method": "fp8", "fmt": "e4m3"}}, "fp8.*fmt e4m3"),
        (
            {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False}},
            r"bitsandbytes.*\(load_in_4bit True\)",
        ),
        (
            {"quantization_config": {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}},
            "compressed-tensors.*format nvfp4-pack-quantized",
        ),
        ({"quantization_config": {"quant_method": "mxfp4"}}, "mxfp4"),
        ({"quantization_config": {"quant_method": "hqq"}}, "hqq"),
        ({"quantization": MLX, "quantization_config": MLX}, "mlx.*bits 4, group_size 64"),
        ({"quantization": MLX}, "mlx.*bits 4"),
        ({"quantization_config": {"bits": 3}}, "unknown.*bits 3"),
        ({"quantization_config": "int8"}, "unknown"),
    ],
)
def test_a_quantised_folder_names_its_type(tmp_path: Path, entries: dict[str, Any], found: str) -> None:
    folder = own_folder(tmp_path / "a")
    change_config(folder, **entries)
    told = refusal(folder)
    assert re.search(f"quantised by {found}", told) and "which cannot be read" in told
    assert row_of(told) == "quantised" and "Q2_K to Q6_K" in told


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("quantize_config.json", {"bits": 4}, "gptq.*bits 4"),
        ("quant_config.json", {"w_bit": 4, "q_group_size": 128}, "awq.*w_bit 4, q_group_size 128"),
        ("hf_quant_config.json", {"quant_algo": "NVFP4"}, "modelopt.*quant_algo NVFP4"),
    ],
)
def test_settings_beside_a_config(tmp_path: Path, name: str, content: dict[str, Any], found: str) -> None:
    folder = own_folder(tmp_path / "a")
    (folder / name).write_text(json.dumps(content))
    assert re.search(f"quantised by {found}", refusal(folder))


def safetensors(path: Path, *names: str) -> None:
    header = {name: {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]} for i, name in enumerate(names)}
    data = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(data)) + data + bytes(4 * len(names)))


@pytest.mark.parametrize(
    ("tensor", "found"),
    [
        ("q_proj.qweight", "quantised by gptq or awq"),
        ("q_proj.weight.absmax", "quantised by bitsandbytes"),
        ("q_proj.weight_packed", "quantised by compressed-tensors"),
        ("q_proj.weight_scale_inv", "quantised by fp8"),
        ("q_proj.scales", "quantised by mlx"),
        ("q_proj.lora_A.weight", "holds LoRA adapters; merge it into its model with peft"),
    ],
)
def test_tensors_that_only_such_folders_have(tmp_path: Path, tensor: str, found: str) -> None:
    folder = own_folder(tmp_path / "a")
    (folder / "model.safetensors.index.json").unlink(missing_ok=True)
    safetensors(folder / "more.safetensors", f"model.layers.0.self_attn.{tensor}")
    assert found in refusal(folder)


@pytest.mark.parametrize("config", [False, True])
def test_an_adapter_names_the_model_to_merge_it_into(tmp_path: Path, config: bool) -> None:
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "me/base", "peft_type": "LORA"}')
    safetensors(tmp_path / "adapter_model.safetensors", "base_model.model.q_proj.lora_A.weight")
    if config:
        (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    told = refusal(tmp_path)
    assert "is a LoRA adapter of me/base, not a model; merge it into me/base with peft's merge_and_unload" in told


def test_an_adapter_as_gguf(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_type("adapter")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert "is of the type 'adapter', not a model; merge it into its model with llama.cpp's" in refusal(
        tmp_path / "a.gguf"
    )


@pytest.mark.parametrize(
    ("model_type", "instead"),
    [
        ("gemma3", "; gemma3 runs from a GGUF file, as `launch.py gemma3_270m` fetches one"),
        ("gemma3_text", "; gemma3 runs from a GGUF file"),
        ("gpt_oss", "; gpt-oss runs from a GGUF file"),
        ("t5", "qwen3_moe are"),
    ],
)
def test_what_runs_as_gguf_only(tmp_path: Path, model_type: str, instead: str) -> None:
    folder = own_folder(tmp_path / "a")
    change_config(folder, model_type=model_type, quantization_config={"quant_method": "mxfp4"})
    told = refusal(folder)
    assert instead in told and row_of(told) == "not-supported"


def test_the_types_that_are_named_are_those_that_can_be_read() -> None:
    shown = {
        "Q4_0": "q40",
        "Q8_0": "q80",
        "Q2_K": "q2_k",
        "Q6_K": "q6_k",
        "IQ1": "iq1_s",
        "IQ4": "iq4_xs",
        "MXFP4": "mxfp4",
    }
    labels = {kind.label for kind in FloatType}
    assert all(name in _READABLE and label in labels for name, label in shown.items())
    families = re.compile(r"f32|b?f16|q[458][01]|q[2-6]_k|iq[1-4]_\w+|mxfp4")
    assert all(families.fullmatch(label) for label in labels)
