"""How fast the pairs of a head turn from position to position, and how models stretch that for longer contexts.

A scaling says by what each of the E/2 inverse frequencies is divided, and by what all cosines and sines are multiplied.
Decimal numbers are computed in software to a stated precision, so every machine gets the same ones.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from typing import Any, ClassVar

DIGITS = 50
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")


def inverse_frequencies(theta: float, head_width: int) -> list[Decimal]:
    """theta^(-2i/E) for i < E/2, to 50 digits: radians a position."""
    with localcontext(Context(prec=DIGITS)):
        logarithm = Decimal(theta).ln()
        return [(-logarithm * (2 * i) / head_width).exp() for i in range(head_width // 2)]


@dataclass(frozen=True, slots=True)
class LinearScaling:
    """All positions are divided by the same number."""

    kind: ClassVar[str] = "linear"
    stretched_context: ClassVar[int] = 0
    magnitude: ClassVar[float] = 1.0
    factor: float

    @property
    def description(self) -> str:
        return f"linear by {self.factor:g}"

    def divisors(self, theta: float, head_width: int) -> list[Decimal]:
        """Of each of the E/2 inverse frequencies."""
        return [Decimal(self.factor)] * (head_width // 2)


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """The scaling of Llama 3.1's model card: 1 for short waves, `factor` for long ones; lengths in tokens."""

    kind: ClassVar[str] = "llama3"
    stretched_context: ClassVar[int] = 0
    magnitude: ClassVar[float] = 1.0
    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int

    @property
    def description(self) -> str:
        return f"llama3 by {self.factor:g} beyond {self.original_context} tokens"

    def divisors(self, theta: float, head_width: int) -> list[Decimal]:
        """Of each of the E/2 inverse frequencies."""
        return [Decimal(self.divisor(float(frequency))) for frequency in inverse_frequencies(theta, head_width)]

    def divisor(self, frequency: float) -> float:
        """Of one inverse frequency, radians a position."""
        turns = self.original_context * frequency / (2 * math.pi)  # full turns within the original context
        if turns > self.high_freq_factor:
            return 1.0
        if turns < self.low_freq_factor:
            return self.factor
        smooth = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        return 1 / ((1 - smooth) / self.factor + smooth)


@dataclass(frozen=True, slots=True)
class YarnScaling:
    """YaRN (arXiv 2309.00071): 1 for pairs that turn more than `beta_fast` times within the original context, `factor`
    for those that turn less than `beta_slow` times, a ramp over the pairs between; whole pairs where `truncate`.
    """

    kind: ClassVar[str] = "yarn"
    factor: float
    original_context: int  # tokens
    magnitude: float  # of cosines and sines, so of queries and keys alike
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True

    @property
    def description(self) -> str:
        return f"yarn by {self.factor:g} beyond {self.original_context} tokens"

    @property
    def stretched_context(self) -> int:
        """Tokens; 0 for scalings whose models always state it themselves."""
        return int(self.factor * self.original_context)

    def divisors(self, theta: float, head_width: int) -> list[Decimal]:
        """Of each of the E/2 inverse frequencies."""
        with localcontext(Context(prec=DIGITS)):
            first, last = self._borders(theta, head_width)
            width = max(last - first, Decimal("0.001"))
            shares = [min(max((i - first) / width, Decimal(0)), Decimal(1)) for i in range(head_width // 2)]
            return [1 / ((1 - share) + share / Decimal(self.factor)) for share in shares]

    def _borders(self, theta: float, head_width: int) -> tuple[Decimal, Decimal]:
        """Numbers of the pairs at which the ramp begins and ends."""
        first, last = (self._pair_that_turns(beta, theta, head_width) for beta in (self.beta_fast, self.beta_slow))
        if self.truncate:
            first, last = first.to_integral_value(ROUND_FLOOR), last.to_integral_value(ROUND_CEILING)
        return max(first, Decimal(0)), min(last, Decimal(head_width - 1))

    def _pair_that_turns(self, turns: float, theta: float, head_width: int) -> Decimal:
        """The pair, seldom a whole number, that makes so many full turns within the original context."""
        wave = self.original_context / (Decimal(turns) * 2 * PI)
        return head_width * wave.ln() / (2 * Decimal(theta).ln())


RopeScaling = LinearScaling | Llama3Scaling | YarnScaling
_KINDS: dict[str, type[RopeScaling]] = {each.kind: each for each in (LinearScaling, Llama3Scaling, YarnScaling)}


def yarn_magnitude(factor: float, weight: float = 1.0) -> float:
    """0.1 * weight * ln(factor) + 1, YaRN's recommendation for cosines and sines."""
    with localcontext(Context(prec=DIGITS)):
        return float(Decimal(weight) / 10 * Decimal(factor).ln() + 1)


def is_ramp(scaling: YarnScaling) -> bool:
    """Whether its ramp goes from fast pairs to slow ones."""
    return 0 < scaling.beta_slow < scaling.beta_fast < 1e6


def to_fields(scaling: RopeScaling) -> dict[str, Any]:
    """As JSON can say it."""
    return {"kind": scaling.kind, **asdict(scaling)}


def from_fields(fields: dict[str, Any]) -> RopeScaling:
    """What `to_fields` said."""
    return _KINDS[fields["kind"]](**{name: value for name, value in fields.items() if name != "kind"})


def scaled(frequencies: Iterable[Decimal], divisors: Iterable[Decimal]) -> list[Decimal]:
    """Frequencies divided, each by its own divisor."""
    return [frequency / divisor for frequency, divisor in zip(frequencies, divisors, strict=True)]
