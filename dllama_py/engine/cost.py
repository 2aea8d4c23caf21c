"""What a step cost, as the root sees it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepCost:
    """Seconds in all, in kernels and in messages (the rest is Python), bytes of the root, rows computed."""

    seconds: float
    kernel_seconds: float
    sync_seconds: float
    sent_bytes: int
    received_bytes: int
    n_rows: int

    def __add__(self, other: "StepCost") -> "StepCost":
        return StepCost(
            self.seconds + other.seconds,
            self.kernel_seconds + other.kernel_seconds,
            self.sync_seconds + other.sync_seconds,
            self.sent_bytes + other.sent_bytes,
            self.received_bytes + other.received_bytes,
            self.n_rows + other.n_rows,
        )


FREE = StepCost(0, 0, 0, 0, 0, 0)
