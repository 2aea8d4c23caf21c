# python -m pytest tests/formats/test_gguf_windows.py
from pathlib import Path

import numpy as np
import pytest

from dllama_py.config import Activation, Arch, ModelConfig
from dllama_py.errors import InputError
from dllama_py.formats.checkpoint import Embedding, open_checkpoint
from dllama_py.formats.mapped import spec_named
from tests.gguf_models import tiny_gguf_model


def config_of(path: Path, **changes: object) -> ModelConfig:
    return open_checkpoint(tiny_gguf_model(path / "a.gguf", "gemma3", **changes)).config


def test_of_six_layers_of_gemma3_one_sees_all(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    assert (config.arch, config.activation, config.has_qk_norm) == (Arch.GEMMA3, Activation.GELU, True)
    assert config.windows == (80, 80, 80, 80, 80, 0, 80)
    assert (config.rope_theta, config.window_rope_theta, config.context_length) == (1e6, 10000.0, 512)
    assert config.score_width == 32
    assert ModelConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    ("pattern", "windows"),
    [
        (2, (80, 0, 80, 0, 80, 0, 80)),
        (0, (80,) * 7),
        ([True, False, False, True, True, True, False], (80, 0, 0, 80, 80, 80, 0)),
    ],
)
def test_a_file_may_say_which_layers_have_a_window(tmp_path: Path, pattern: object, windows: tuple[int, ...]) -> None:
    config = config_of(tmp_path, attention__sliding_window_pattern=pattern, rope__freq_base_swa=5000.0)
    assert config.windows == windows
    assert config.window_rope_theta == 5000


def test_without_a_window_all_layers_see_all(tmp_path: Path) -> None:
    config = config_of(tmp_path, attention__sliding_window=None)
    assert (config.windows, config.window_of(3), config.window_rope_theta) == ((), 0, None)


def test_the_largest_gemma3_scales_scores_by_its_width(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    largest = {name: getattr(config, name) for name in config.__slots__} | {"n_layers": 62, "width": 5376}
    assert ModelConfig(**largest | {"n_heads": 32, "head_width": 128}).score_width == 168


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention__sliding_window_pattern": [True, False]}, r"sliding_window_pattern is \[ ?True False\], expected"),
        ({"attention__sliding_window_pattern": "local"}, "is local, expected a period or 7 truth values"),
        ({"final_logit_softcapping": 30.0}, r"gemma3.final_logit_softcapping is 30.0, expected 0"),
    ],
)
def test_what_is_not_computed_is_refused(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        config_of(tmp_path, **changes)


def test_embedded_rows_are_scaled(tmp_path: Path) -> None:
    scaled = open_checkpoint(tiny_gguf_model(tmp_path / "a.gguf", "gemma3"))
    plain = scaled.read(spec_named(scaled.config, "embedding"), 5, 6).view(np.float32)
    assert np.allclose(Embedding(scaled).rows([5]), plain * 128**0.5, rtol=1e-6, atol=0)


def test_every_second_layer_of_gpt_oss_sees_all(tmp_path: Path) -> None:
    config = open_checkpoint(tiny_gguf_model(tmp_path / "a.gguf", "gpt-oss")).config
    assert (config.arch, config.activation, config.has_sinks) == (Arch.GPT_OSS, Activation.CLAMPED_SWIGLU, True)
    assert (config.windows, config.window_rope_theta) == ((80, 0, 80, 0), None)
    assert (config.n_experts, config.n_active_experts, config.hidden_width) == (4, 2, 64)
    with pytest.raises(InputError, match=r"rope.freq_base_swa is 1000.0, expected that of all layers, 150000.0"):
        open_checkpoint(tiny_gguf_model(tmp_path / "b.gguf", "gpt-oss", rope__freq_base_swa=1000.0))
