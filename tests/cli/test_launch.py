# python -m pytest tests/cli/test_launch.py
"""launch.py as users call it, in a folder of its own, with a hub on this machine."""

import json
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dllama_py.formats.tokenizer_file import tokenizer_file_bytes
from dllama_py.home import home_folder
from dllama_py.token_list import TokenList
from tests.checkpoints import tiny_folder, tiny_model_file
from tests.support.hub import FakeHub, running

CLONE = Path(__file__).parents[2]
MODEL, TOKENIZER = random.Random(1).randbytes(40_000), random.Random(2).randbytes(4000)
QWEN = "b4rtaz/Qwen3-14B-Q40-Distributed-Llama"


@pytest.fixture
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeHub]:
    folder = tiny_folder(tmp_path_factory, "tiny-llama")
    content = {
        QWEN: {
            "dllama_model_qwen3_14b_q40_aa": MODEL[:30_000],
            "dllama_model_qwen3_14b_q40_ab": MODEL[30_000:],
            "dllama_tokenizer_qwen3_14b.t": TOKENIZER,
        },
        "me/tiny": {path.name: path.read_bytes() for path in folder.iterdir()},
        "me/empty": {"m-Q8_0.gguf": b""},
        "me/ggufs": {"m-F16-00001-of-00002.gguf": MODEL, "m-F16-00002-of-00002.gguf": MODEL, "m-Q8_0.gguf": MODEL},
        "bartowski/DeepSeek-R1-Distill-Qwen-14B-GGUF": {"DeepSeek-R1-Distill-Qwen-14B-Q4_K_M.gguf": MODEL},
    }
    with running(FakeHub(content)) as hub:
        yield hub


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "a clone"
    folder.mkdir()
    shutil.copy(CLONE / "launch.py", folder)
    return folder


def environment(clone: Path, fake: FakeHub | None) -> dict[str, str]:
    """Of a user who has set nothing but the hub."""
    home = clone.parent / "home"
    if not home.exists():
        home.mkdir()
        for folder in home_folder().glob("*/"):  # compiled kernels; what was fetched last is in a file
            (home / folder.name).symlink_to(folder)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    places = {"DLLAMA_HOME": str(home), "HF_HOME": str(clone.parent / "hf")}
    return {**kept, **places, "HF_ENDPOINT": fake.url if fake else "http://127.0.0.1:9"}


def launch(
    clone: Path, fake: FakeHub | None, *arguments: str, words: str | None = None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, clone / "launch.py", *arguments],
        env=environment(clone, fake),
        input=words if words is not None else "",
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def refused(clone: Path, fake: FakeHub | None, *arguments: str) -> str:
    """The one line with which it ends."""
    done = launch(clone, fake, *arguments)
    (line,) = done.stderr.splitlines()
    assert done.returncode in (2, 3), line
    return f"{done.returncode} {line}"


def test_without_a_name_the_known_models_are_listed(clone: Path) -> None:
    done = launch(clone, None)
    assert (done.returncode, done.stderr) == (0, "")
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in done.stdout.splitlines() if line}
    assert lines["name"] == "model on disk 1 node 2 nodes 4 nodes 8 nodes"
    assert re.fullmatch(r"SmolLM2 135M Instruct, Q4_1 98.4 MB( [\d.]+ MB){3} -", lines["smollm2_135m"])
    assert re.fullmatch(r"Qwen3 30B, 3B active 18.3 GB 17.\d GB [89].\d GB 4.\d GB -", lines["qwen3_30b_a3b_q40"])
    assert re.fullmatch(
        r"Llama 3.3 70B Instruct 43.3 GB 4\d.\d GB 20.\d GB 10.\d GB 5.\d GB", lines["llama3_3_70b_instruct_q40"]
    )
    assert lines["gemma3_270m"] == "Gemma 3 270M, not tuned for chat, Q4_K_M ~253.1 MB - - - -"
    assert lines["mixtral_8x22b"] == "Mixtral 8x22B Instruct, IQ2_XXS ~38.0 GB - - - -"
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
    assert "14B" in (line := next(line for line in launch(clone, None).stdout.splitlines() if "qwen3_14b" in line))
    assert line.endswith("fetched")


def test_without_a_terminal_it_does_not_ask(clone: Path, fake: FakeHub) -> None:
    done = launch(clone, fake, "qwen3_14b_q40", words="y\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"qwen3_14b_q40: {clone}/models/qwen3_14b_q40/dllama_model_qwen3_14b_q40.m",
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
    until = time.monotonic() + 30
    while (not noted.exists() or not sum(json.loads(noted.read_text())["done"])) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=10)
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "2 error: no model 'nothing' in the catalogue; give OWNER/REPO[:FILE] of a hub, or one of: smol"),
        (["me/other"], "2 error: me/other at http://127.0.0.1:"),
        (["me/ggufs"], "2 error: me/ggufs holds GGUF files; name one, as me/ggufs:FILE, of: m-F16"),
        (["me/ggufs:Q4"], "2 error: me/ggufs: no GGUF file fits 'Q4'; name one of: m-F16"),
        (["qwen3_0.6b"], "2 error: no model 'qwen3_0.6b' in the catalogue; give OWNER/REPO[:FILE] of a hub, or one "),
        (["me/tiny", "--np", "0"], "2 error: argument --np/--nodes: '0' is not a whole number above 0"),
        (["me/tiny", "--np", "x"], "2 error: argument --np/--nodes: 'x' is not a whole number above 0"),
        (["me/tiny", "--nice", "20"], "2 error: argument --nice: '20' is no priority; expected -20 to 19"),
        (
            ["me/tiny", "--port-range", "9:5"],
            "2 error: argument --port-range: '9:5' is no range of ports; expected A:B",
        ),
        (["me/tiny", "--iface", "nosuch0"], "2 error: no interface 'nosuch0' on this machine; it has "),
        (["me/tiny", "--hostfile", "nowhere"], "2 error: nowhere is no hostfile (No such file or directory)"),
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


def put_in_place(clone: Path, smollm2_gguf: Path) -> None:
    folder = clone / "models" / "smollm2_135m"
    folder.mkdir(parents=True)
    (folder / smollm2_gguf.name).symlink_to(smollm2_gguf)


def on_a_terminal(clone: Path, fake: FakeHub, arguments: list[str], answers: dict[str, str]) -> tuple[str, int]:
    """What a user saw who typed each answer when its question stood there; the exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(
            sys.executable, [sys.executable, str(clone / "launch.py"), *arguments], environment(clone, fake)
        )  # fmt: skip
    shown, waiting = "", dict(answers)
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # how Linux reports that the other side is gone
            break
        if not piece:
            break
        shown += piece.decode(errors="replace")
        for question in [question for question in waiting if question in shown]:
            os.write(terminal, waiting.pop(question).encode())
    os.close(terminal)
    return shown, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
