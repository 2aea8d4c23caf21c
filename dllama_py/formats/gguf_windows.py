"""What GGUF metadata say of attention's windows and of the context, by llama.cpp's rules for each architecture."""

from typing import TypedDict

import numpy as np

from dllama_py.config import Arch
from dllama_py.formats.gguf_facts import Facts

_PERIODS = {Arch.GEMMA3: 6, Arch.GPT_OSS: 2}  # of so many layers the last sees all positions
_GEMMA3_THETA = 10000.0


class WindowFields(TypedDict):
    """Fields of the config."""

    context_length: int
    windows: tuple[int, ...]
    window_rope_theta: float | None


def read_windows(arch: Arch, facts: Facts) -> WindowFields:
    """Within a window sliding and full attention are the same; so the window of other architectures, of whose layers
    nobody says which have it, limits the context.
    """
    context, window = facts.whole("context_length"), facts.whole("attention.sliding_window", 0)
    if window <= 0:
        return WindowFields(context_length=context, windows=(), window_rope_theta=None)
    if arch not in _PERIODS:
        return WindowFields(context_length=min(context, window), windows=(), window_rope_theta=None)
    windows = tuple(window if has_window else 0 for has_window in _windowed_layers(facts, _PERIODS[arch]))
    return WindowFields(context_length=context, windows=windows, window_rope_theta=_theta(arch, facts))


def _theta(arch: Arch, facts: Facts) -> float | None:
    """Of the layers with a window; None where it is that of all layers."""
    if arch is Arch.GEMMA3:
        return facts.number("rope.freq_base_swa", _GEMMA3_THETA)
    usual = facts.number("rope.freq_base")
    if facts.number("rope.freq_base_swa", usual) != usual:
        raise facts.error("rope.freq_base_swa", facts.get("rope.freq_base_swa", None), f"that of all layers, {usual}")
    return None


def _windowed_layers(facts: Facts, period: int) -> list[bool]:
    """Which layers have a window: the file lists them, or says that of so many layers one has none."""
    n_layers, pattern = facts.whole("block_count"), facts.get("attention.sliding_window_pattern", period)
    if isinstance(pattern, np.ndarray) and pattern.size == n_layers and pattern.dtype.kind in "biu":
        return [bool(each) for each in pattern]
    if type(pattern) is not int or pattern < 0:
        raise facts.error("attention.sliding_window_pattern", pattern, f"a period or {n_layers} truth values")
    return [pattern == 0 or layer % pattern < pattern - 1 for layer in range(n_layers)]
