# python -m pytest tests/profiling/test_sensors.py
from pathlib import Path

from dllama_py.profiling.sensors import Sample, SensorLog, celsius, clock_mhz


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_clocks_are_averaged_and_the_hottest_zone_counts(tmp_path: Path) -> None:
    for cpu, khz in enumerate(("1800000\n", "600000\n")):
        write(tmp_path / f"devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq", khz)
    for zone, text in enumerate(("48500\n", "61234\n", "nothing\n")):
        write(tmp_path / f"class/thermal/thermal_zone{zone}/temp", text)
    assert clock_mhz(tmp_path) == 1200.0
    assert celsius(tmp_path) == 61.234


def test_a_host_without_sensors_has_none(tmp_path: Path) -> None:
    assert (clock_mhz(tmp_path), celsius(tmp_path)) == (None, None)


def test_a_log_looks_at_once_and_ends(tmp_path: Path) -> None:
    write(tmp_path / "class/thermal/thermal_zone0/temp", "40000")
    log = SensorLog(tmp_path, every_s=60)
    log.start()
    log.stop()
    assert [(sample.clock_mhz, sample.celsius) for sample in log.samples] == [(None, 40.0)]


def test_samples_of_a_time(tmp_path: Path) -> None:
    log = SensorLog(tmp_path)
    log.samples += [Sample(10, 1000, 50), Sample(12, 2000, 60), Sample(14, None, 55), Sample(20, 900, 80)]
    assert log.between(9, 15) == (1500, 60)
    assert log.between(13, 15) == (None, 55)
    assert log.between(30, 40) == (None, None)
