"""Whether it pays to send a step ahead, behind guesses that are not verified yet: learned from what such steps took.

Times are shares of what the same step takes with nothing else of its sequence in the pipe (draft_length.StepTimes), so
that hops, unlike stages, and stages that share a machine are all in them.
"""

from dataclasses import dataclass

from dllama_py.engine.draft_length import BLEND, FORGET, MARGIN

SUPPOSED_FOLLOWING = 0.5  # two stages, of which each works all the time
SUPPOSED_LEADING = 1.1
MOST = 2.0  # a measurement counts as no more


@dataclass(slots=True)
class AheadShares:
    """`following`: of a step that was sent ahead behind right guesses, from the answer before it to its own. `leading`:
    of a step behind which others were sent, or before which void ones are still on their way.
    """

    following: float = SUPPOSED_FOLLOWING
    leading: float = SUPPOSED_LEADING

    def observe_following(self, share: float) -> None:
        """One was measured."""
        self.following += BLEND * (min(share, MOST) - self.following)

    def observe_leading(self, share: float) -> None:
        """One was measured."""
        self.leading += BLEND * (min(share, MOST) - self.leading)

    def pass_token(self) -> None:
        """One token later, what was seen counts a little less, so that it is tried again some day."""
        self.following += (1 - FORGET) * (SUPPOSED_FOLLOWING - self.following)
        self.leading += (1 - FORGET) * (SUPPOSED_LEADING - self.leading)

    def saved(self, chance: float) -> float:
        """The share of its time that a step, right with that chance, is expected to save if it is sent ahead, less what
        those before it lose in any case. 0 where it is not worth it.
        """
        expected = chance * (1 - self.following) - max(self.leading - 1, 0.0)
        return expected if expected > MARGIN - 1 else 0.0
