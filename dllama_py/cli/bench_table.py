"""What `bench` measured, for people: each figure with its unit, and in words what it means."""

from collections.abc import Mapping
from typing import Any

from dllama_py.cli.tables import table

# key of the JSON object -> (name, unit, how many of the unit one of the figure is, digits, what it means)
ROWS: dict[str, tuple[str, str, float, int, str]] = {
    "nodes": ("nodes", "", 1, 0, ""),
    "threads": ("threads", "", 1, 0, "of each node"),
    "decode_tok_s": ("decode", "tokens/s", 1, 1, ""),
    "prefill_tok_s": ("prefill", "tokens/s", 1, 1, ""),
    "weight_bytes_per_token": ("weights", "MB/token", 1e-6, 1, "read by all nodes together"),
    "read_gb_s": ("memory", "GB/s", 1, 1, "as fast as these threads read it"),
    "roofline": ("roofline", "%", 100, 0, "decode, of what the memory's speed allows"),
    "gemm_gmac_s": ("gemm", "GMAC/s", 1, 1, "multiplications in prefill"),
    "kernel_gmac_s": ("kernel", "GMAC/s", 1, 1, "the same by the kernel alone"),
    "gemm_share": ("gemm share", "%", 100, 0, "prefill, of what the kernel allows"),
    "sync_ms_per_token": ("messages", "ms/token", 1, 2, "between the nodes"),
    "python_ms_per_token": ("Python", "ms/token", 1, 2, "outside kernels and messages"),
    "load_s": ("load", "s", 1, 1, "from the start to the first prompt"),
    "compile_s": ("compile", "s", 1, 1, "of that; 0 from the second start on"),
    "private_bytes": ("memory used", "MB", 1e-6, 0, "by each node"),
    "busy_cores": ("other programs", "cores", 1, 1, "that others used on the busiest machine"),
    "sequences": ("sequences", "", 1, 0, "at once"),
    "together_tok_s": ("batch", "tokens/s", 1, 1, "of all sequences"),
    "foretold_decode_tok_s": ("predicted decode", "tokens/s", 1, 1, "by the plan of the pipeline"),
    "foretold_prefill_tok_s": ("predicted prefill", "tokens/s", 1, 1, ""),
    "foretold_together_tok_s": ("predicted batch", "tokens/s", 1, 1, ""),
}


def bench_table(figures: Mapping[str, Any]) -> str:
    """A line a figure, in the order in which they were measured."""
    return table(("", "measured", "unit", ""), [_row(key, value) for key, value in figures.items()], also_left=(2, 3))


def _row(key: str, value: Any) -> tuple[str, str, str, str]:
    name, unit, factor, digits, meaning = ROWS.get(key, (key.replace("_", " "), "", 1, 2, ""))
    values = value if isinstance(value, list) else [value]
    numbers = [f"{factor * one:.{digits}f}" if isinstance(one, int | float) else str(one) for one in values]
    return name, " ".join(numbers), unit, meaning
