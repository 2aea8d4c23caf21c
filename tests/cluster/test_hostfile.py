# python -m pytest tests/cluster/test_hostfile.py
import subprocess
import sys
from pathlib import Path

import pytest

from dllama_py.cluster.hostfile import Host, ranks_to_start, read_hostfile, refuse_too_many
from dllama_py.errors import InputError, UsageError

SAMPLE = Path(__file__).parents[2] / "hostfile"
MPIRUN = Path(sys.executable).with_name("mpirun")


def mpirun(hostfile: Path, n_ranks: int) -> "subprocess.CompletedProcess[str]":
    command = [MPIRUN, "-f", hostfile, "-np", str(n_ranks), "sh", "-c", "echo $PMI_RANK"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)


def test_the_sample_starts_four_ranks_on_this_machine() -> None:
    hosts = read_hostfile(SAMPLE)
    assert hosts == (Host("localhost", 4),)
    done = mpirun(SAMPLE, 4)
    assert (done.returncode, sorted(done.stdout.split()), done.stderr) == (0, ["0", "1", "2", "3"], "")


def test_the_sample_explains_itself_in_lines_of_their_own() -> None:
    lines = SAMPLE.read_text().splitlines()
    assert [line for line in lines if "#" in line and not line.startswith("#")] == []
    assert len([line for line in lines if line.startswith("#")]) > 10


def test_its_example_of_four_machines_can_be_read(tmp_path: Path) -> None:
    example = [line[4:] for line in SAMPLE.read_text().splitlines() if line.startswith("#   1")]
    (tmp_path / "hosts").write_text("\n".join(example))
    assert read_hostfile(tmp_path / "hosts") == tuple(Host(f"192.168.1.{10 + i}", 1) for i in range(4))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("localhost slots=4", "line 1: 'localhost slots=4' is how Open MPI writes it; MPICH wants .* as localhost:1"),
        ("localhost:4 # the root", "line 1: .* has more than NAME:RANKS; put comments on lines of their own"),
    ],
)
def test_what_mpirun_refuses_is_refused_in_words(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "hosts").write_text(text + "\n")
    assert mpirun(tmp_path / "hosts", 2).returncode != 0
    with pytest.raises(InputError, match=words):
        read_hostfile(tmp_path / "hosts")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no machine"),
        ("# only words\n", "names no machine"),
        ("node1:0\n", "line 1: 'node1:0' is no machine"),
        ("node1:x\n", "is no machine; expected NAME or NAME:RANKS"),
        ("node1:1\nnode2\nnode1:2\n", "names node1 twice; give it one line, node1:RANKS"),
    ],
)
def test_other_faults(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "hosts").write_text(text)
    with pytest.raises(InputError, match=words):
        read_hostfile(tmp_path / "hosts")


def test_a_missing_hostfile(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="hosts is no hostfile .*No such file"):
        read_hostfile(tmp_path / "hosts")


@pytest.mark.parametrize(("ranks", "started"), [([1], 1), ([1, 1, 1], 2), ([2, 2], 4), ([4, 3], 4), ([1] * 8, 8)])
def test_ranks_are_a_power_of_two(ranks: list[int], started: int) -> None:
    assert ranks_to_start([Host(f"n{i}", n) for i, n in enumerate(ranks)]) == started


def test_more_ranks_than_are_offered_are_refused() -> None:
    hosts = [Host("node1", 2), Host("node2", 1)]
    refuse_too_many(3, hosts, Path("hosts"))
    with pytest.raises(UsageError) as caught:
        refuse_too_many(4, hosts, Path("hosts"))
    assert str(caught.value) == (
        "--np 4: hosts offers 3 ranks (node1:2, node2:1); take --np 2, or write more behind a machine's name there"
    )
