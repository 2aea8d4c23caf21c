"""What `drift` found: the JSON object and the table."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dllama_py.cli.drift_jobs import Request, Setting
from dllama_py.engine.comparison import Distance
from dllama_py.engine.parting import Parting

HEADS = ("nodes", "threads", "exchange", "chunk", "same bits", "first other token", "largest gap", "KL nats", "margin")


@dataclass(frozen=True, slots=True)
class Compared:
    """A setting: the ids that it generated, the hash of its logits, how far these are from those of the first one, and
    where it parts from the first one of its family.
    """

    setting: Setting
    threads: int
    ids: list[int]
    logits_sha256: str
    distance: Distance
    parting: Parting | None

    def facts(self) -> dict[str, Any]:
        setting = asdict(self.setting) | {"threads": self.threads}
        parting = None if self.parting is None else asdict(self.parting)
        return setting | asdict(self.distance) | {"logits_sha256": self.logits_sha256, "parts_at": parting}


@dataclass(frozen=True, slots=True)
class Report:
    """All of one run; `against`: how far other sources are from the first setting; `perplexity` by format."""

    request: Request
    compared: Sequence[Compared]
    against: Mapping[str, Distance]
    perplexity: Mapping[str, float]

    @property
    def odd(self) -> Compared | None:
        """The first setting that has not the bits and ids of the first of its family."""
        firsts: dict[str, Compared] = {}
        for entry in self.compared:
            first = firsts.setdefault(entry.setting.family, entry)
            if entry.parting or (entry.logits_sha256, entry.ids) != (first.logits_sha256, first.ids):
                return entry
        return None

    def facts(self) -> dict[str, Any]:
        """The object of --json."""
        return {
            "identical": self.odd is None,
            "prompt_ids": self.request.prompt_ids,
            "ids": self.request.ids,
            "settings": [entry.facts() for entry in self.compared],
            "against": [{"source": source, **asdict(found)} for source, found in self.against.items()],
            "perplexity": dict(self.perplexity),
        }

    def verdict(self) -> str:
        """One sentence a finding."""
        return "\n".join([self._on_bits(), *self._on_perplexity()])

    def _on_bits(self) -> str:
        odd = self.odd
        if odd is None:
            settings = f"{len(self.compared)} setting{'s' * (len(self.compared) > 1)}"
            return f"identical: {settings}, and within each exchange one answer, bit for bit"
        s = odd.setting
        return (
            f"NOT identical: {s.nodes} nodes x {odd.threads} threads, chunk {s.chunk}, give another answer than "
            f"the first setting of exchange {s.family}; they part {_place(odd.parting)}"
        )

    def _on_perplexity(self) -> list[str]:
        if not self.perplexity:
            return []
        (first, base), *others = self.perplexity.items()
        parts = [f"{name} {value:.4f} ({100 * (value / base - 1):+.3f} %)" for name, value in others]
        return [f"perplexity: {', '.join([f'{first} {base:.4f}', *parts])}"]

    def rows(self) -> list[tuple[str, ...]]:
        """Texts of the table, by HEADS."""
        own = [
            (str(e.setting.nodes), str(e.threads), e.setting.format, str(e.setting.chunk), *_texts(e.distance))
            for e in self.compared
        ]
        return own + [("", "", source, "", *_texts(found)) for source, found in self.against.items()]


def _place(parting: Parting | None) -> str:
    if parting is None:
        return "after the last layer"
    where = "before the first layer" if parting.layer is None else f"in layer {parting.layer}, {parting.part}"
    node = "" if parting.node is None else f", on node {parting.node}"
    return f"at position {parting.position} {where}{node}"


def _texts(found: Distance) -> tuple[str, ...]:
    token = "-" if found.first_differing_token is None else str(found.first_differing_token)
    gap, margin = f"{found.max_abs_logit_difference:.3g}", f"{found.min_top2_margin:.3g}"
    return "yes" if found.same_bits else "no", token, gap, f"{found.kl_nats:.3g}", margin


def show(report: Report, to_stderr: bool) -> None:
    """The table and the verdict, on a terminal in its width, elsewhere without lines that break."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console(stderr=to_stderr, highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 160
    table = Table(*HEADS, box=SIMPLE_HEAD, title="each setting against the first", title_justify="left")
    for row in report.rows():
        table.add_row(*row)
    console.print(table)
    console.print(report.verdict(), soft_wrap=True)
