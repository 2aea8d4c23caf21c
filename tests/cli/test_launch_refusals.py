# python -m pytest tests/cli/test_launch_refusals.py
"""What launch.py cannot do: one line, and nothing half-made."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.hub import FakeHub
from tests.support.launching import QWEN, environment, refused


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "2 error: no model 'nothing' in the catalogue; give OWNER/REPO[:FILE] of a hub, or one of: smol"),
        (["me/other"], "2 error: me/other at http://127.0.0.1:"),
        (["me/ggufs"], "2 error: me/ggufs holds GGUF files; name one, as me/ggufs:FILE, of: m-F16"),
        (["me/ggufs:Q4"], "2 error: me/ggufs: no GGUF file fits 'Q4'; name one of: m-F16"),
        (["qwen3_0.6"], "2 error: no model 'qwen3_0.6' in the catalogue; give OWNER/REPO[:FILE] of a hub, or one "),
        (["me/tiny", "--np", "0"], "2 error: argument --np/--nodes: '0' is not a whole number above 0"),
        (["me/tiny", "--np", "x"], "2 error: argument --np/--nodes: 'x' is not a whole number above 0"),
        (["me/tiny", "--nice", "20"], "2 error: argument --nice: '20' is no priority; expected -20 to 19"),
        (
            ["me/tiny", "--port-range", "9:5"],
            "2 error: argument --port-range: '9:5' is no range of ports; expected A:B",
        ),
        (["me/tiny", "--iface", "nosuch0"], "2 error: no interface 'nosuch0' on this machine; it has "),
        (["me/tiny", "--hostfile", "nowhere"], "2 error: nowhere is no hostfile (No such file or directory)"),
        (
            ["me/tiny", "--stages", "2", "--topology", "auto"],
            "2 error: --stages and --split are for pipelines; leave --topology auto out",
        ),
        (["me/tiny", "--wrong"], "2 error: unrecognized arguments: --wrong (launch.py --help shows the options)"),
    ],
)
def test_one_line_says_what_is_wrong(clone: Path, fake: FakeHub, arguments: list[str], words: str) -> None:
    assert refused(clone, fake, *arguments).startswith(words)
    assert list(clone.glob("models/*/[!.]*")) == []


def test_an_empty_file_is_refused_before_a_script_is_written(clone: Path, fake: FakeHub) -> None:
    line = refused(clone, fake, "me/empty:Q8_0")
    assert line.startswith("2 error: ") and line.endswith("m-Q8_0.gguf: the file is empty; get it again")
    assert list(clone.glob("run_*.sh")) == []


def test_a_setting_of_the_hubs_library_that_is_no_number(clone: Path, fake: FakeHub) -> None:
    here = environment(clone, fake) | {"HF_HUB_DOWNLOAD_TIMEOUT": "x"}
    command = [sys.executable, clone / "launch.py", "me/tiny", "--skip-run"]
    done = subprocess.run(command, env=here, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: HF_HUB_DOWNLOAD_TIMEOUT is no number (") and done.stderr.count("\n") == 1


def test_a_password_in_the_hubs_address_is_not_shown(clone: Path) -> None:
    for endpoint, code in (("http://me:secret@127.0.0.1:9", 3), ("http://me:secret@127.0.0.1:9/?a", 2)):
        command = [sys.executable, clone / "launch.py", "me/tiny"]
        here = environment(clone, None) | {"HF_ENDPOINT": endpoint}
        done = subprocess.run(command, env=here, capture_output=True, text=True, check=False)
        assert done.returncode == code and "secret" not in done.stdout + done.stderr
        assert "http://***@127.0.0.1:9" in done.stderr


def test_more_ranks_than_the_hostfile_offers(clone: Path, fake: FakeHub) -> None:
    (clone / "hosts").write_text("node1:2\nnode2:1\n")
    line = refused(clone, fake, "me/tiny", "--hostfile", str(clone / "hosts"), "--np", "4")
    assert line.startswith(f"2 error: --np 4: {clone}/hosts offers 3 ranks (node1:2, node2:1); take --np 2, or ")
    assert list(clone.glob("models/*/[!.]*")) == []


def test_a_hub_that_is_away(clone: Path) -> None:
    line = refused(clone, None, "qwen3_14b_q40")
    assert line.startswith(f"3 error: {QWEN} at http://127.0.0.1:9 cannot be reached")


def test_a_hub_that_lies_about_a_hash(clone: Path, fake: FakeHub) -> None:
    fake.says_sha256 = "0" * 64
    line = refused(clone, fake, "qwen3_14b_q40")
    assert line.startswith("2 error: dllama_tokenizer_qwen3_14b.t: what came from b4rtaz/")
    assert sorted(path.suffix for path in (clone / "models/qwen3_14b_q40").glob("dllama*")) == [".json", ".part"]


def test_without_an_environment_make_is_named(clone: Path) -> None:
    bare = Path(sys.executable).resolve()  # an environment's Python is a link to the one that it was made with
    done = subprocess.run([bare, clone / "launch.py"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "There is no environment yet: run `make install`, or `make run` to see it work at once.\n"
