"""Clock and temperature of this host while something runs, as Linux shows them; nothing where it does not."""

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

SYSTEM = Path("/sys")
EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class Sample:
    """At `at_s` of time.time(): the mean of the CPUs' clocks and the hottest zone; None where there is no sensor."""

    at_s: float
    clock_mhz: float | None
    celsius: float | None


class SensorLog:
    """Reads the sensors now and then in a thread of its own, from `start` to `stop`."""

    def __init__(self, system: Path = SYSTEM, every_s: float = EVERY_S) -> None:
        self.samples: list[Sample] = []
        self._system = system
        self._every_s = every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="sensors", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def between(self, start_s: float, end_s: float) -> tuple[float | None, float | None]:
        """Mean clock and highest temperature of the samples in that time."""
        found = [sample for sample in self.samples if start_s <= sample.at_s <= end_s]
        clocks = [sample.clock_mhz for sample in found if sample.clock_mhz is not None]
        heats = [sample.celsius for sample in found if sample.celsius is not None]
        return mean(clocks) if clocks else None, max(heats, default=None)

    def _look(self) -> None:
        while True:
            self.samples.append(Sample(time.time(), clock_mhz(self._system), celsius(self._system)))
            if self._ended.wait(self._every_s):
                return


def clock_mhz(system: Path) -> float | None:
    """The mean of all CPUs, by cpufreq."""
    found = _numbers(system, "devices/system/cpu/cpu*/cpufreq/scaling_cur_freq")
    return mean(found) / 1000 if found else None


def celsius(system: Path) -> float | None:
    """The hottest thermal zone."""
    found = _numbers(system, "class/thermal/thermal_zone*/temp")
    return max(found) / 1000 if found else None


def _numbers(system: Path, pattern: str) -> list[int]:
    found = []
    for path in system.glob(pattern):
        try:
            found.append(int(path.read_text()))
        except (OSError, ValueError):  # a zone that is switched off
            continue
    return found
