# python -m pytest tests/formats/test_model_file.py
"""The `.m` file: header rules, sizes to the byte, and damage of every kind."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from dllama_py.blocks import FloatType
from dllama_py.config import Arch
from dllama_py.errors import InputError
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.formats.model_header import Key, header_bytes
from dllama_py.formats.tensors import tensor_specs
from dllama_py.rope_scaling import LinearScaling, Llama3Scaling, YarnScaling
from tests.checkpoints import NAMES, tiny_config, tiny_model_file

NONE: frozenset[str] = frozenset()


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> bytes:
    return tiny_model_file(tmp_path_factory.mktemp("plain") / "a.m").read_bytes()


def spoil(path: Path, data: bytes, **changes: int | None) -> Path:
    """The file with header pairs changed, added (at the end) or dropped, by the names of their keys."""
    (size,) = struct.unpack_from("<i", data, 4)
    pairs = dict(struct.iter_unpack("<ii", data[8:size]))
    pairs |= {int(Key[key.upper()]): value for key, value in changes.items()}
    body = b"".join(struct.pack("<ii", key, value) for key, value in pairs.items() if value is not None)
    path.write_bytes(data[:4] + struct.pack("<i", 8 + len(body)) + body + data[size:])
    return path


def refused(path: Path, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        open_checkpoint(path)
    assert "\n" not in str(caught.value)


def test_the_order_of_pairs_is_that_of_the_reference_converter():
    config = tiny_config("tiny-llama31")
    header = header_bytes(Path("a"), config, FloatType.Q40, NONE)
    pairs = list(struct.iter_unpack("<ii", header[8:]))
    assert header[:8] == b"\xcd\xab\x00\x0a\xb0\x00\x00\x00"  # 8 + 8 * 21
    assert [key for key, _ in pairs] == [0, 1, 11, 2, 3, 4, 5, 6, 13, 10, 9, 7, 8, 12, 14, 15, 16, 17, 18, 19, 20]
    assert [value for _, value in pairs][:9] == [0, 0xABCD00, 1, 128, 256, 2, 8, 4, 2]
    assert [value for _, value in pairs][13:] == [500000, 32, 1, 4, 64, 2, 32, 5]


@pytest.mark.parametrize("name", NAMES)
def test_facts_survive(tmp_path, name):
    assert open_checkpoint(tiny_model_file(tmp_path / "a.m", name)).config == tiny_config(name)


def test_tensors_lie_back_to_back(tmp_path):
    checkpoint = open_checkpoint(tiny_model_file(tmp_path / "a.m", "tiny-qwen3", FloatType.Q80))
    sizes = {
        spec.name: checkpoint.read(spec, 0, spec.matrix_shape[0]).nbytes for spec in tensor_specs(checkpoint.config)
    }
    assert sizes["embedding"] == 320 * 128 * 4
    assert sizes["layers.0.q"] == 256 * 128 // 32 * 34
    assert sizes["layers.1.q_norm"] == 32 * 4
    assert sum(sizes.values()) + 136 == (tmp_path / "a.m").stat().st_size


def test_defaults_of_absent_keys(tmp_path, plain):
    path = spoil(
        tmp_path / "a", plain, rope_theta=None, head_width=None, norm_epsilon=None, hidden_act=None, version=None
    )
    checkpoint = open_checkpoint(path)
    assert checkpoint.config == tiny_config()
    assert checkpoint.omitted == {"rope_theta", "head_width", "norm_epsilon"}


def test_the_last_of_a_repeated_key_counts(tmp_path, plain):
    (size,) = struct.unpack_from("<i", plain, 4)
    twice = struct.pack("<ii", Key.CONTEXT_LENGTH, 7) + plain[8:size]
    (tmp_path / "a").write_bytes(plain[:4] + struct.pack("<i", size + 8) + twice + plain[size:])
    assert open_checkpoint(tmp_path / "a").config.context_length == 512


def test_scaling_holds_where_the_factor_is_not_1(tmp_path, plain):
    scaling = {"scaling_low": 1, "scaling_high": 4, "scaling_original": 8192}
    for rope_type in (0, 2):
        path = spoil(tmp_path / "a", plain, rope_type=rope_type, scaling_factor=8, **scaling)
        assert open_checkpoint(path).config.rope_scaling == Llama3Scaling(8.0, 1.0, 4.0, 8192)
    path = spoil(tmp_path / "a", plain, rope_type=2, scaling_factor=1, **scaling)
    assert open_checkpoint(path).config.rope_scaling is None


def test_qwen3_turns_halves_whatever_the_file_says(tmp_path):
    data = tiny_model_file(tmp_path / "a.m", "tiny-qwen3").read_bytes()
    for rope_type in (0, 1):
        assert open_checkpoint(spoil(tmp_path / "b", data, rope_type=rope_type)).config == tiny_config("tiny-qwen3")
    refused(spoil(tmp_path / "b", data, scaling_factor=8), "RoPE scaling by 8 in a qwen3 model is not computed")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arch": 0xABCD03}, "architecture 0xabcd03; known are 0xabcd00"),
        ({"arch": None}, "no architecture"),
        ({"weights": None}, "no weights type"),
        ({"weights": 7}, "weights type 0x7; known are 0x0, 0x1, 0x2, 0x3"),
        ({"hidden_act": 0}, r"activation 0 \(gelu is 0\) is not computed"),
        ({"rope_type": 1}, "RoPE type 1 in a llama model is not computed"),
        ({"rope_type": 2, "scaling_factor": 8}, "RoPE scaling 8, 0, 0, 0 cannot be"),
        ({"norm_epsilon": 7}, "norm epsilon 0x7"),
        ({"n_experts": 4}, "4 experts do not go with architecture llama"),
        ({"width": 0}, "width 0"),
        ({"width": -128}, "width -128"),
        ({"n_heads": 0}, "heads 0"),
        ({"n_kv_heads": 3}, "8 heads of width 16 over 3"),
        ({"n_layers": 2**31 - 1}, "2147483647 layers of 0 experts cannot be"),
        ({"n_layers": 3}, "the file ends at byte .*, inside layers.2"),
        ({"n_layers": 1}, "bytes follow the last tensor, expected none"),
        ({"vocab_size": 2**31 - 1}, "inside embedding"),
        ({"width": 120, "head_width": 16}, "q has rows of 120 elements, q40 needs a multiple of 32"),
    ],
)
def test_headers_that_cannot_be(tmp_path, plain, changes, message):
    refused(spoil(tmp_path / "a", plain, **changes), message)


def test_an_unknown_key(tmp_path, plain):
    (size,) = struct.unpack_from("<i", plain, 4)
    more = plain[8:size] + struct.pack("<ii", 22, 5)
    (tmp_path / "a").write_bytes(plain[:4] + struct.pack("<i", size + 8) + more + plain[size:])
    refused(tmp_path / "a", r"header key 22 \(value 5\) is not known, keys 0 to 21 are")


@pytest.mark.parametrize("size", [-8, 0, 7, 12, 2**31 - 1])
def test_header_sizes_that_cannot_be(tmp_path, plain, size):
    (tmp_path / "a").write_bytes(plain[:4] + struct.pack("<i", size) + plain[8:])
    refused(tmp_path / "a", "header size|bytes wanted at offset 8")


def test_surplus_bytes(tmp_path, plain):
    (tmp_path / "a").write_bytes(plain + b"\0")
    refused(tmp_path / "a", "1 bytes follow the last tensor, expected none")


def test_a_file_cut_anywhere_is_refused(tmp_path, plain):
    for length in [*range(200), *range(200, len(plain), 9973), len(plain) - 1]:
        (tmp_path / "a").write_bytes(plain[:length])
        with pytest.raises(InputError) as caught:
            open_checkpoint(tmp_path / "a")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm_epsilon": 1e-3}, "norm epsilon 0.001 cannot be written to a .m file, which knows 1e-05 and 1e-06"),
        ({"rope_theta": 10000.5}, "RoPE base 10000.5 is not a whole number below 2"),
        ({"rope_theta": 1e10}, "RoPE base 10000000000.0 is not a whole number below 2"),
        ({"rope_scaling": Llama3Scaling(2.5, 1.0, 4.0, 64)}, "RoPE scaling 2.5 is not a whole number"),
        ({"rope_factors": (1.0, 2.0)}, "cannot hold this model's RoPE scaling"),
        ({"rope_scaling": LinearScaling(2.0)}, "cannot hold this model's RoPE scaling"),
        ({"rope_scaling": YarnScaling(2.0, 64, 1.0)}, "cannot hold this model's RoPE scaling"),
        ({"arch": Arch.QWEN2}, "cannot hold the architecture qwen2; run the model from its own format"),
        ({"arch": Arch.MIXTRAL}, "cannot hold the architecture mixtral"),
        ({"has_qkv_bias": True}, "cannot hold biases"),
        ({"weighs_all_experts": True}, "cannot hold a router that weighs all experts"),
        (
            {"arch": Arch.QWEN3, "rope_scaling": Llama3Scaling(2.0, 1.0, 4.0, 64)},
            "cannot hold this model's RoPE scaling",
        ),
    ],
)
def test_what_a_header_cannot_say(changes, message):
    with pytest.raises(InputError, match=message):
        header_bytes(Path("a"), replace(tiny_config(), **changes), FloatType.Q40, NONE)
