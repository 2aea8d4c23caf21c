# python -m pytest tests/cli/test_inference.py
"""Mode inference through its command line, in this process: what scripts rely on."""

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import gguf
import pytest

from dllama_py.cli import main
from tests import checkpoints
from tests.checkpoints import tiny_folder, tiny_gguf, tiny_model_file

KEYS = {
    "prompt_ids",
    "ids",
    "text",
    "finish_reason",
    "ids_sha256",
    "topology",
    "nodes",
    "threads",
    "ttft_s",
    "prefill_tok_s",
    "decode_tok_s",
    "sync_ms_per_token",
    "network_share",
    "sent_bytes_per_token",
    "received_bytes_per_token",
    "private_bytes",
    "peak_rss_bytes",
    "load_s",
    "speculation",
    "acceptance",
    "tokens_per_step",
    "cancelled_steps",
    "speculation_speed_up",
}


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The JSON object, which must be all there is on standard output."""
    assert main(["inference", "--json", "--nthreads", "1", *arguments]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    result: dict[str, Any] = json.loads(line)
    return result


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line with which the program ends with code 2."""
    assert main(["inference", *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    return line


def test_the_built_in_question_is_asked_as_chat(smollm2_gguf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = answer(capsys, "--model", str(smollm2_gguf))
    assert result["text"] == "The capital of France is Paris."
    assert result["finish_reason"] == "stop"
    assert result["ids"] == [504, 3575, 282, 4649, 314, 7042, 30, 2]  # the end token is counted
    assert result.keys() == KEYS
    assert (result["nodes"], result["threads"], result["topology"]) == (1, 1, "tensor")
    assert (result["sent_bytes_per_token"], result["network_share"]) == (0, 0)
    assert result["ids_sha256"] == hashlib.sha256(b"504,3575,282,4649,314,7042,30,2").hexdigest()
    assert 0 < result["decode_tok_s"] and 0 < result["ttft_s"] and 50e6 < result["private_bytes"][0]


def test_ids_are_taken_as_they_are_and_need_no_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(tiny_model_file(tmp_path / "a.m"))
    result = answer(capsys, "--model", model, "--ids", "11,21,45", "--steps", "5")
    assert (result["prompt_ids"], len(result["ids"]), result["text"]) == ([11, 21, 45], 5, "")
    assert result["finish_reason"] == "length"


def test_one_token_has_no_decode_rate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(tiny_model_file(tmp_path / "a.m"))
    assert answer(capsys, "--model", model, "--ids", "11", "--steps", "1")["decode_tok_s"] is None


def test_a_folder_is_quantised_as_wanted(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the fly or by the converter: the same answer."""
    from dllama_py.blocks import FloatType

    folder = str(tiny_folder(tmp_path_factory, "tiny-qwen3"))
    wish = ("--ids", "11,21,45,83", "--steps", "12")
    q80 = answer(capsys, "--model", folder, "--weights", "q80", *wish)["ids"]
    q40 = answer(capsys, "--model", folder, *wish)["ids"]
    for kind, ids in ((FloatType.Q80, q80), (FloatType.Q40, q40)):
        model = str(tiny_model_file(tmp_path / f"{kind.label}.m", "tiny-qwen3", kind))
        assert answer(capsys, "--model", model, *wish)["ids"] == ids


def test_a_seed_repeats_itself_and_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wish = (
        "--model",
        str(tiny_model_file(tmp_path / "a.m")),
        "--ids",
        "11,21",
        "--steps",
        "20",
        "--temperature",
        "0.8",
    )
    first = answer(capsys, *wish, "--seed", "1")["ids"]
    assert answer(capsys, *wish, "--seed", "1")["ids"] == first
    assert answer(capsys, *wish, "--seed", "2")["ids"] != first
    main(["inference", "--nthreads", "1", *wish])
    assert re.search(r"; seed \d+$", capsys.readouterr().err, re.MULTILINE)


def test_without_a_tokenizer_the_ids_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wish = ("--model", str(tiny_model_file(tmp_path / "a.m")), "--ids", "11,21,45", "--steps", "5")
    ids = answer(capsys, *wish)["ids"]
    assert main(["inference", "--nthreads", "1", *wish]) == 0
    out = capsys.readouterr().out
    assert [line.rpartition("| ")[2] for line in out.splitlines() if "Pred " in line] == [str(id) for id in ids]
    assert f"\n{','.join(map(str, ids))}\n" in out


def test_step_lines_and_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(tiny_gguf(tmp_path / "a.gguf"))
    assert main(["inference", "--model", model, "--prompt", "Hi", "--steps", "3", "--nthreads", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    step = r" *\d+ ms Sync *\d+ ms \| Sent *0 kB Recv *0 kB \| "
    assert re.fullmatch(rf"🔷️ Eval{step}\(2 tokens\)", lines[0])
    assert all(re.fullmatch(rf"🔶 Pred{step}.+", line) for line in lines[1:4])
    assert re.match(r"🔶 Pred    0 ms Sync    0 ms", lines[1]), "the first token came with the prompt's step"
    rates = r"   tokens/s: \d+\.\d\d \(\d+\.\d\d ms/tok\)"
    summary = rf"Evaluation\n   nBatches: 1\n    nTokens: 2\n{rates}\nPrediction\n    nTokens: 3\n{rates}"
    assert re.search(summary, "\n".join(lines))


@pytest.mark.parametrize(
    ("wish", "text"),
    [
        (("--prompt", "\u4e05"), " w w"),
        (("--ids", "1,5"), " w w"),
        (("--prompt", ""), "w w"),  # the begin token alone
        ((), "w w"),  # the built-in question, as chat
    ],
)
def test_the_first_space_is_dropped_only_where_a_text_begins(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    wish: tuple[str, ...],
    text: str,
) -> None:
    """SentencePiece writes a space before every word, and one before the first: prompt and text go together."""

    def all_words(writer: gguf.GGUFWriter, vocab_size: int) -> None:
        writer.add_tokenizer_model("llama")
        writer.add_token_list(["<unk>", "<s>", "</s>", *(f"▁{chr(0x4E00 + i)}" for i in range(3, vocab_size))])
        writer.add_token_types([2, 3, 3] + [1] * (vocab_size - 3))
        writer.add_token_scores([0.0] * vocab_size)
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_chat_template("\u4e05")

    monkeypatch.setattr(checkpoints, "add_tokenizer", all_words)
    model = str(tiny_gguf(tmp_path / "a.gguf"))
    assert re.sub(r"\S", "w", answer(capsys, "--model", model, "--steps", "2", *wish)["text"]) == text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--steps", "0"), ["--steps 0", "at least 1"]),
        (("--ids", "1,,2"), ["'1,,2'", "commas"]),
        (("--ids", "320"), ["token 320", "0 to 319"]),
        (("--ids", ",".join(["1"] * 70), "--max-seq-len", "64"), ["70 tokens", "64", "--max-seq-len"]),
        (("--prompt", "Hi"), ["needs a tokenizer", "--tokenizer", "--ids"]),
        (("--ids", "1", "--weights", "q80"), ["--weights q80", "Hugging Face"]),
        (("--ids", "1", "--buffer-float-type", "q4"), ["q4", "f32"]),
        (("--ids", "1", "--tokenizer", "nowhere"), ["nowhere", "tokenizer"]),
        (("--ids", "1", "--topology", "tensor", "--stages", "1"), ["--stages", "--topology pipeline"]),
    ],
)
def test_what_cannot_work_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: list[str]
) -> None:
    line = refused(capsys, "--model", str(tiny_model_file(tmp_path / "a.m")), *arguments)
    assert [word for word in words if word not in line] == []


def test_without_any_model_the_line_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DLLAMA_HOME", str(tmp_path))
    assert "launch.py smollm2_135m" in refused(capsys)


def test_speculation_changes_figures_and_no_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, coarse = tmp_path / "model.gguf", tmp_path / "coarse.gguf"
    tiny_gguf(model, "tiny-llama31", "F16", distinct=True)
    tiny_gguf(coarse, "tiny-llama31", "Q8_0", distinct=True)
    wish = ["--model", str(model), "--ids", "1,2,3,1,2,3,1,2", "--steps", "40", "--temperature", "0.8", "--seed", "5"]
    plain = answer(capsys, *wish)
    assert plain["speculation"] == "off"
    assert plain["acceptance"] is plain["tokens_per_step"] is plain["speculation_speed_up"] is None
    for mode, options in {"lookup": ["--speculate", "lookup"], "draft": ["--draft", str(coarse)]}.items():
        found = answer(capsys, *wish, *options)
        assert (found["speculation"], found["ids"]) == (mode, plain["ids"])
        assert found["tokens_per_step"] >= 1 and found["speculation_speed_up"] > 0
    assert main(["inference", "--nthreads", "1", *wish, "--speculate", "lookup"]) == 0
    assert re.search(r"^Speculation\n +accepted: \d+ of \d+\n", capsys.readouterr().out, re.MULTILINE)


def test_a_small_model_must_have_the_vocabulary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    tiny_gguf(tmp_path / "model", "tiny-llama31", "F16")
    tiny_gguf(other, "tiny-llama31", "F16", vocab_size=640)
    wish = ["--model", str(tmp_path / "model"), "--ids", "1"]
    line = refused(capsys, *wish, "--draft", str(other))
    assert line.startswith(f"error: --draft {other} has a vocabulary of 640, the model one of 320: ")
    assert "name it with --draft" in refused(capsys, *wish, "--speculate", "draft")
    assert "give one of them" in refused(capsys, *wish, "--speculate", "lookup", "--draft", str(other))
    assert "nowhere" in refused(capsys, *wish, "--draft", str(tmp_path / "nowhere"))


def test_a_start_is_two_lines_and_verbose_tells_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(tiny_model_file(tmp_path / "a.m"))
    wish = ["inference", "--model", model, "--ids", "1", "--steps", "1", "--nthreads", "1"]
    assert main(wish) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert first == "a.m: llama, weights q40, context 512 of 512"
    assert re.fullmatch(
        rf"ready after [\d.]+ s: 1 node on {os.uname().nodename}, 1 thread, [\d.]+ MB of memory", second
    )
    assert main([*wish, "--verbose"]) == 0
    told = capsys.readouterr().err
    assert [words for words in (" layers, width ", "memory in MB", "threads of each node") if words not in told] == []
