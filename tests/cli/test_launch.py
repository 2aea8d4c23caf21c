# python -m pytest tests/cli/test_launch.py
"""launch.py as users call it, in a folder of its own, with a hub on this machine."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dllama_py.formats.tokenizer_file import tokenizer_file_bytes
from dllama_py.token_list import TokenList
from tests.checkpoints import tiny_gguf, tiny_model_file
from tests.support.hub import FakeHub
from tests.support.launching import (
    MODEL,
    TOKENIZER,
    environment,
    launch,
    on_a_terminal,
    put_in_place,
    refused,
)


def test_without_a_name_the_known_models_are_listed(clone: Path) -> None:
    done = launch(clone, None)
    assert (done.returncode, done.stderr) == (0, "")
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in done.stdout.splitlines() if line}
    assert lines["name"] == "on disk 1 node 2 nodes 4 nodes 8 nodes"
    assert re.fullmatch(r"0.10( 0.\d\d){3} -", lines["smollm2_135m"])
    assert re.fullmatch(r"18.3 17.\d [89].\d 4.\d -", lines["qwen3_30b_a3b_q40"])
    assert re.fullmatch(r"43.3 4\d.\d 20.\d 10.\d 5.\d", lines["llama3_3_70b_instruct_q40"])
    assert lines["gemma3_270m"] == "~0.25 - - - -"
    assert lines["mixtral_8x22b"] == "~38.0 - - - -"
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "pipeline: each node has some of their layers" in done.stdout


def test_a_reader_that_has_had_enough(clone: Path) -> None:
    command = f"'{sys.executable}' launch.py | head -1"
    done = subprocess.run(["sh", "-c", command], cwd=clone, capture_output=True, text=True, check=False)
    assert (len(done.stdout.splitlines()), done.stderr) == (1, "")


def test_parts_are_fetched_joined_and_can_be_started(clone: Path, fake: FakeHub) -> None:
    done = launch(clone, fake, "qwen3-14b-q40", "--skip-run", "--np", "2")
    assert (done.returncode, done.stderr) == (0, "")
    folder = clone / "models" / "qwen3_14b_q40"
    assert (folder / "dllama_model_qwen3_14b_q40.m").read_bytes() == MODEL
    assert (folder / "dllama_tokenizer_qwen3_14b_q40.t").read_bytes() == TOKENIZER
    script = clone / "run_qwen3_14b_q40.sh"
    assert os.access(script, os.X_OK)
    model, tokenizer = folder / "dllama_model_qwen3_14b_q40.m", folder / "dllama_tokenizer_qwen3_14b_q40.t"
    assert f"-np 2 {sys.executable} -m dllama_py chat --model '{model}' --tokenizer '{tokenizer}'" in script.read_text()
    line = next(line for line in launch(clone, None).stdout.splitlines() if "qwen3_14b" in line)
    assert line.endswith("*")


def test_one_machine_has_one_rank_and_several_whatever_is_faster(clone: Path, fake: FakeHub) -> None:
    script = clone / "run_qwen3_14b_q40.sh"
    (clone / "hosts").write_text("localhost:2\n127.0.0.1:1\n")
    for options, n_ranks, topology in (
        ([], 1, ""),
        (["--hostfile", "hosts"], 3, "--topology auto"),
        (["--hostfile", "hosts", "--np", "2"], 2, "--topology auto"),
        (["--hostfile", "hosts", "--split", "20,20,0"], 3, "--topology pipeline --split 20,20,0"),
        (["--np", "4", "--stages", "2"], 4, "--topology pipeline --stages 2"),
    ):
        words = [str(clone / word) if word == "hosts" else word for word in options]
        assert launch(clone, fake, "qwen3_14b_q40", "--skip-run", *words).returncode == 0
        assert f"-np {n_ranks} " in script.read_text()
        assert script.read_text().rstrip().endswith(f' {topology} "$@"'.replace("  ", " "))


def test_who_is_left_out_of_a_number_that_tensor_cannot_take(clone: Path, fake: FakeHub) -> None:
    (clone / "hosts").write_text("localhost\nnode2\nnode3\n")
    words = ["--skip-run", "--topology", "tensor", "--hostfile", str(clone / "hosts")]
    done = launch(clone, fake, "qwen3_14b_q40", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert "offers 3 ranks, of which --topology tensor takes 2 (1, 2, 4, 8, ...); idle on node3; --topo" in done.stdout


def test_the_script_gives_a_terminal_the_same_chat(clone: Path, fake: FakeHub, smollm2_gguf: Path) -> None:
    put_in_place(clone, smollm2_gguf)
    assert launch(clone, fake, "smollm2_135m", "--skip-run").returncode == 0
    program = clone / "run_smollm2_135m.sh"
    answers = {"Ctrl-D ends.": "/help\n", "the end of input": "/quit\n"}
    shown, code = on_a_terminal(clone, fake, ["--max-seq-len", "512"], answers, program)
    assert code == 0 and "context 512 of" in shown, shown
    done = subprocess.run(
        [program, "--prompt", "Hi", "--steps", "2", "--json"],
        env=environment(clone, fake), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and len(json.loads(done.stdout.splitlines()[-1])["ids"]) == 2, done.stderr


def test_without_a_terminal_it_does_not_ask(clone: Path, fake: FakeHub) -> None:
    done = launch(clone, fake, "qwen3_14b_q40", words="y\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"Qwen3 14B: {clone}/models/qwen3_14b_q40/dllama_model_qwen3_14b_q40.m",
        f"written: {clone}/run_qwen3_14b_q40.sh",
    ]


def test_with_y_it_starts_and_takes_lines(clone: Path, smollm2_gguf: Path) -> None:
    put_in_place(clone, smollm2_gguf)
    done = launch(clone, None, "smollm2_135m", "-y", "--np", "2", "--nice", "5", words="/help\n")
    assert done.returncode == 0, done.stderr
    assert "forget the conversation" in done.stderr
    assert "nice -n 5" in (clone / "run_smollm2_135m.sh").read_text()


def test_a_wrong_number_of_ranks_passes_on_the_exit_code(clone: Path, smollm2_gguf: Path) -> None:
    put_in_place(clone, smollm2_gguf)
    done = launch(clone, None, "smollm2_135m", "-y", "--np", "3")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert done.stderr.startswith("error: 3 ranks cannot share")


@pytest.mark.parametrize("place", ["file", "file/inside", "/proc/nobody"])
def test_a_home_that_cannot_be_written_is_no_hindrance(clone: Path, fake: FakeHub, place: str) -> None:
    (clone / "file").write_text("")
    command = [sys.executable, clone / "launch.py", "qwen3_14b_q40", "--skip-run"]
    here = environment(clone, fake) | {"DLLAMA_HOME": str(clone / place)}
    done = subprocess.run(command, env=here, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^note: not noted as the last model \(.*\); DLLAMA_HOME sets another folder$", done.stdout, re.M)
    assert (clone / "run_qwen3_14b_q40.sh").exists()


def test_on_a_terminal_it_asks(clone: Path, fake: FakeHub) -> None:
    shown, code = on_a_terminal(clone, fake, ["me/tiny", "--np", "1"], {"Start it now on 1 rank? [y/N]": "n\n"})
    assert "Start it now on 1 rank? [y/N]" in shown
    assert code == 0


def test_on_a_terminal_the_user_talks_to_the_job(clone: Path, fake: FakeHub, smollm2_gguf: Path) -> None:
    put_in_place(clone, smollm2_gguf)
    answers = {"Start it now on 2 ranks? [y/N]": "y\n", "Ctrl-D ends.": "/help\n", "the end of input": "/quit\n"}
    shown, code = on_a_terminal(clone, fake, ["smollm2_135m", "--np", "2"], answers)
    assert code == 0, shown
    assert "forget the conversation" in shown


def test_from_a_name_to_an_answer(clone: Path, fake: FakeHub, tmp_path: Path) -> None:
    """Files of distributed-llama's own kinds; afterwards no option need name them."""
    template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    single_bytes = [bytes([byte]) for byte in range(256)]
    tokens = TokenList([*single_bytes, b"<s>", b"</s>"], [0.0] * 258, 256, (257,), True, template)
    fake.repositories["b4rtaz/Qwen3-0.6B-Q40-Distributed-Llama"] = {
        "dllama_model_qwen3_0.6b_q40.m": tiny_model_file(tmp_path / "tiny.m", "tiny-qwen3").read_bytes(),
        "dllama_tokenizer_qwen3_0.6b.t": tokenizer_file_bytes(tokens),
    }
    done = launch(clone, fake, "qwen3_0.6b_q40", "-y", "--np", "2", words="/help\n")
    assert done.returncode == 0, done.stderr
    assert "forget the conversation" in done.stderr
    command = [sys.executable, "-m", "dllama_py", "inference", "--prompt", "ab", "--steps", "3", "--json"]
    answer = subprocess.run(command, env=environment(clone, None), capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout.splitlines()[-1])["prompt_ids"] == [256, 97, 98]


def test_an_interrupted_download_goes_on(clone: Path, fake: FakeHub) -> None:
    fake.bytes_per_s = 4000
    command = [sys.executable, clone / "launch.py", "qwen3_14b_q40", "--skip-run"]
    process = subprocess.Popen(
        command, env=environment(clone, fake), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    noted = clone / "models" / "qwen3_14b_q40" / "dllama_model_qwen3_14b_q40.m.part.json"
    until = time.monotonic() + 60
    while (not noted.exists() or not sum(json.loads(noted.read_text())["done"])) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=200)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "interrupted; what has come is kept, the same command goes on from there"
    fake.bytes_per_s = None
    assert launch(clone, fake, "qwen3_14b_q40", "--skip-run").returncode == 0
    assert (noted.parent / "dllama_model_qwen3_14b_q40.m").read_bytes() == MODEL


def test_a_model_for_pipelines_is_started_as_one(clone: Path, fake: FakeHub) -> None:
    assert launch(clone, fake, "deepseek_r1_distill_14b", "--skip-run", "--np", "3").returncode == 0
    (script,) = clone.glob("run_*.sh")
    assert "-np 3 " in script.read_text()
    assert script.read_text().rstrip().endswith('.gguf\' --topology pipeline "$@"')


def dllama(clone: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "dllama_py", *arguments]
    return subprocess.run(command, env=environment(clone, None), capture_output=True, text=True, check=False)


def test_a_fetched_model_is_named_listed_and_removed(clone: Path, fake: FakeHub, tmp_path: Path) -> None:
    fake.repositories["me/Tiny-GGUF"] = {"Tiny-Q4_0.gguf": tiny_gguf(tmp_path / "tiny.gguf").read_bytes()}
    assert "no model here yet" in launch(clone, None, "list").stdout
    first = launch(clone, fake, "me/Tiny-GGUF:Q4_0", "--skip-run")
    assert (first.returncode, "default" in first.stdout) == (0, False)
    for name in ("tiny-q4_0", "me/Tiny-GGUF:Q4_0", str(clone / "models" / "me--Tiny-GGUF")):
        done = dllama(clone, "inference", "--model", name, "--ids", "1,2", "--steps", "2", "--json")
        assert done.returncode == 0, done.stderr
        assert dllama(clone, "inspect", name).returncode == 0

    second = launch(clone, fake, "qwen3_14b_q40", "--skip-run")
    assert "qwen3_14b_q40 is the default model now, instead of Tiny-Q4_0.gguf" in second.stdout.splitlines()
    listed = {line.split()[0]: line for line in launch(clone, None, "list").stdout.splitlines() if line}
    assert (" default " in listed["qwen3_14b_q40"], " default " in listed["Tiny-Q4_0"]) == (True, False)

    removed = launch(clone, None, "remove", "qwen3-14b")
    assert re.fullmatch(r"qwen3_14b_q40 removed, [\d.]+ kB freed\n", removed.stdout)
    assert [path.name for path in (clone / "models").iterdir()] == ["me--Tiny-GGUF"]
    assert [path.name for path in clone.glob("run_*.sh")] == ["run_Tiny-Q4_0.sh"]
    assert launch(clone, None, "Tiny-Q4_0", "--skip-run").returncode == 0, "by its own name, without a network"


def test_removing_what_is_not_here(clone: Path) -> None:
    assert refused(clone, None, "remove", "smollm2_135m").startswith("2 error: smollm2_135m: no fetched model has")
    assert refused(clone, None, "remove").startswith("2 error: one name of a model was expected")
    assert refused(clone, None, "smollm2_135m", "gemma3_270m").startswith("2 error: one name of a model was expected")


def test_a_name_that_is_not_fetched_says_how_to_fetch_it(clone: Path) -> None:
    done = dllama(clone, "inference", "--model", "qwen3_0.6b", "--steps", "1")
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert line == "error: qwen3_0.6b: not fetched yet; fetch it with: python launch.py qwen3_0.6b_q40"
