"""How fast a rank is, as facts that travel and are written down, and how long it takes with what it holds.

A product of one row waits for the memory, one of `PROBE_ROWS` for the arithmetic; few rows, which have other kernels
than one, are known by `FEW_ROWS` of them. Between these the time grows evenly.
"""

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

from dllama_py.blocks import FloatType
from dllama_py.planning.sizes import PartSizes, Product, RankSizes

PROBE_ROWS, FEW_ROWS = 64, 2
BESIDE = ("layer_s", "row_layer_s", "step_s", "crowd", "wake_s")  # facts of a rank beside those of weights
DECODE_POSITIONS = 256  # what a token is assumed to see: a short question and half of its answer


@dataclass(frozen=True, slots=True)
class KindSpeed:
    """Of products with weights of one type that come from memory, by all threads of a rank."""

    bytes_per_s: float  # one row
    macs_per_s: float  # PROBE_ROWS rows
    few_macs_per_s: float | None = None  # FEW_ROWS rows; None: as if nothing lay between one and PROBE_ROWS


@dataclass(frozen=True, slots=True)
class RankSpeed:
    """What a rank is measured by. `layer_s`, `row_layer_s`: what a layer takes beside its products, for one row that
    sees DECODE_POSITIONS and for each further one; `step_s`: what a step takes beside its layers; `crowd`: how many
    times as long many rows take while all ranks of the host compute; `wake_s`: how much longer a step of one row takes
    when the rank has slept until it came, as in a pipeline."""

    kinds: Mapping[FloatType, KindSpeed]
    layer_s: float
    row_layer_s: float
    step_s: float
    crowd: float = 1.0
    wake_s: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Four digits are more than is known."""
        kinds = {
            kind.label: [None if rate is None else _rounded(rate) for rate in astuple(speed)]
            for kind, speed in self.kinds.items()
        }
        beside = {name: _rounded(getattr(self, name)) for name in BESIDE}
        return {"kinds": kinds, **beside}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "RankSpeed":
        kinds = {FloatType.named(label): KindSpeed(*values) for label, values in fields["kinds"].items()}
        return cls(kinds, *(fields[name] for name in BESIDE))


def layer_s(sizes: RankSizes, layer: int, speed: RankSpeed, n_rows: int) -> float:
    """Seconds of one layer for so many rows; exchanges are not among them."""
    beside_s = speed.layer_s + (n_rows - 1) * speed.row_layer_s
    return part_s(sizes.layers[layer], speed, n_rows) + beside_s


def part_s(part: PartSizes, speed: RankSpeed, n_rows: int) -> float:
    """Seconds of the products of a layer, or of the head."""
    return sum(_product_s(product, speed.kinds[product.kind], n_rows) for product in part.products)


def _product_s(product: Product, speed: KindSpeed, n_rows: int) -> float:
    """Of experts, those that at least one row has chosen, if every choice is as likely, and each has as many rows."""
    share = product.n_active / product.n_experts
    n_read = product.n_experts * (1 - (1 - share) ** n_rows)
    rows_each = n_rows * product.n_active / n_read
    return n_read * _dense_s(product, speed, rows_each)


def _dense_s(product: Product, speed: KindSpeed, n_rows: float) -> float:
    """Of one matrix; more rows never take less."""
    base_rows, base_s = 1, product.n_bytes / speed.bytes_per_s
    many_s = max(PROBE_ROWS * product.macs / speed.macs_per_s, base_s)
    if speed.few_macs_per_s is not None:
        few_s = min(max(FEW_ROWS * product.macs / speed.few_macs_per_s, base_s), many_s)
        if n_rows < FEW_ROWS:
            return base_s + (n_rows - 1) * (few_s - base_s) / (FEW_ROWS - 1)
        base_rows, base_s = FEW_ROWS, few_s
    return base_s + (n_rows - base_rows) * (many_s - base_s) / (PROBE_ROWS - base_rows)


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
