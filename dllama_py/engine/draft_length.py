"""How many guesses are worth checking: what was learned of the guesses and of the steps, and the choice that follows.

Everything here is a function of what it was told; it reads no clock. Its answers move speed alone, never an id.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

MARGIN = 1.03  # expected gain below which a plain step is taken: the figures are not more exact than that

FORGET = 0.99  # what is left, after a token, of the weight of what was seen of guesses: half after 69
OPINION = 2.0  # the maker's own opinion weighs as much as so many guesses seen
HOPELESS = 0.1  # chance of a whole draft to be right, below which nothing is added to it
USUAL_CHANCE = 0.7  # the opinion of guesses that have not been made yet

BLEND = 0.2  # share of a new measurement
STRAY = 2.0  # a measurement counts as no more than so many times the mean
STALE_STEPS = 256  # after which a measurement is forgotten, and so tried again
ROW_SHARE = 0.05  # what a further row is assumed to cost, as a share of a plain step, before it is measured

Saved = Callable[[float], float]


def nothing_saved(chance: float) -> float:
    """Where no step can be sent behind another before that is verified."""
    return 0.0


def best_length(chances: Sequence[float], step_s: Sequence[float], saved: Saved = nothing_saved) -> int:
    """How many guesses give most ids a second; 0 unless some give clearly more than none.

    chances: of each guess to be right, given that those before it are. step_s: seconds of a step that checks 0, 1, ...
    guesses, one more entry than `chances`, what the guesses themselves cost included. saved: of the time of a step that
    follows one whose guesses, and the id behind them too, are right with that chance.
    """
    best, most = 0, 0.0
    expected, all_right = 1.0, 1.0  # the id that the model draws behind the last right guess comes in any case
    for n, seconds in enumerate(step_s):
        next_chance = chances[n] if n < len(chances) else USUAL_CHANCE
        rate = expected / (seconds * (1 - saved(all_right * next_chance)))
        if rate > most:
            best, most = n, rate if n else MARGIN * rate
        all_right *= next_chance
        expected += all_right
    return best


class Chances:
    """How often guesses were right, by what their maker thought of them."""

    N_BINS = 16

    def __init__(self) -> None:
        self._seen = [0.0] * self.N_BINS
        self._right = [0.0] * self.N_BINS

    def observe(self, opinion: float, is_right: bool) -> None:
        """A guess of which its maker thought so has been checked, and all before it were right."""
        at = self._bin(opinion)
        self._seen[at] += 1
        self._right[at] += is_right

    def pass_token(self) -> None:
        """One token later, all that was seen counts a little less, so that opinions are trusted again some day."""
        self._seen = [FORGET * seen for seen in self._seen]
        self._right = [FORGET * right for right in self._right]

    def of(self, opinion: float) -> float:
        """The chance of such a guess to be right, given that those before it are."""
        at = self._bin(opinion)
        return (self._right[at] + OPINION * opinion) / (self._seen[at] + OPINION)

    def usual(self) -> float:
        """The chance of a guess of which nothing is known yet."""
        return (sum(self._right) + OPINION * USUAL_CHANCE) / (sum(self._seen) + OPINION)

    def _bin(self, opinion: float) -> int:
        return min(int(opinion * self.N_BINS), self.N_BINS - 1)


@dataclass(slots=True)
class _Measured:
    seconds: float
    at_step: int


@dataclass(slots=True)
class StepTimes:
    """Seconds of a step by its rows, as measured lately; between measurements a line, beyond the last an assumption."""

    _measured: dict[int, _Measured] = field(default_factory=dict)
    _n_steps: int = 0

    @property
    def plain_s(self) -> float | None:
        """Of a step of one row; None if none was measured lately."""
        known = self._measured.get(1)
        return known.seconds if known else None

    def pass_step(self) -> None:
        """One step later, measured or not, what is too old is forgotten."""
        self._n_steps += 1
        oldest = self._n_steps - STALE_STEPS
        self._measured = {n: known for n, known in self._measured.items() if known.at_step > oldest}

    def observe(self, n_rows: int, seconds: float) -> None:
        """The last step, of so many rows and with no other of its sequence in the pipe, took so long."""
        known = self._measured.get(n_rows)
        if known is not None:
            seconds = known.seconds + BLEND * (min(seconds, STRAY * known.seconds) - known.seconds)
        self._measured[n_rows] = _Measured(seconds, self._n_steps)

    def knows(self, n_rows: int) -> bool:
        """Whether such a step was measured lately, or lies between some that were."""
        return n_rows <= max(self._measured, default=0)

    def of(self, n_rows: int) -> float:
        """Expected seconds of one step."""
        return self.up_to(n_rows)[-1]

    def up_to(self, n_rows: int) -> list[float]:
        """Expected seconds of steps of 1, 2, ... rows. A plain step must have been measured lately."""
        points = [(n, known.seconds) for n, known in sorted(self._measured.items())]
        if points[-1][0] < n_rows:
            last, seconds = points[-1]
            points.append((n_rows, seconds + (n_rows - last) * ROW_SHARE * points[0][1]))
        expected = [points[0][1]]
        for (n, seconds), (next_n, next_seconds) in pairwise(points):
            slope = (next_seconds - seconds) / (next_n - n)
            expected += [seconds + slope * i for i in range(1, next_n - n + 1)]
        return expected[:n_rows]
