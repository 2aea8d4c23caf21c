# python -m pytest tests/cli/test_chat.py
"""Mode chat: the conversation with a scripted model and user, and the command line in this process."""

import io
import json
import os
import re
import time
from pathlib import Path

import pytest

from dllama_py.cli import main
from dllama_py.cli.chat import talk
from dllama_py.cli.faces import JsonLines, Lines
from dllama_py.dialogue import Dialogue, Manner
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.errors import InputError
from tests.checkpoints import tiny_gguf, tiny_model_file
from tests.cli.test_inference import KEYS
from tests.support.chats import END, NO_SYSTEM, TURNS, ScriptedFace, byte_text, scripted_dialogue
from tests.support.scripted import ScriptedRunner

FRANCE = "What is the capital of France? Answer in one sentence."


def test_an_answer_is_shown_as_it_comes_with_its_figures() -> None:
    face = ScriptedFace("Hi")
    talk(scripted_dialogue(b"<think>hm</think>Yes", "Hi"), face)
    assert "".join(text for text, thought in face.shown if thought) == "<think>hm</think>"
    assert [text for text, thought in face.shown if not thought] == ["Y", "e", "s", "\n"]
    (line,) = face.said
    assert re.fullmatch(
        r"\[21 tokens, [\d.]+ tok/s, the first after [\d.]+ s; 0 of 20 prompt tokens were cached\]", line
    )


def test_commands() -> None:
    dialogue = scripted_dialogue(b"Yes", "Hi")
    face = ScriptedFace("Hi", "/system Be brief.", "/help", "/rest", "  ", "/quit", "never asked")
    talk(dialogue, face)
    assert dialogue.messages == [{"role": "system", "content": "Be brief."}]
    assert [line.split()[0] for line in face.said] == ["[4", "another", "/reset", "there"]
    assert face.said[-1] == "there is no command /rest; did you mean /reset?; /help lists them"
    talk(dialogue, ScriptedFace("/reset"))
    assert dialogue.system == "Be brief."
    talk(dialogue, ScriptedFace("/system"))
    assert dialogue.messages == []


@pytest.mark.parametrize("command", ["/quit", "/exit"])
def test_it_ends_when_told(command: str) -> None:
    face = ScriptedFace(command, "never asked")
    talk(scripted_dialogue(b"Yes", "Hi"), face)
    assert (face.ask(), face.said) == ("never asked", [])


def test_settings_are_shown_and_changed() -> None:
    dialogue = scripted_dialogue(b"Yes", "Hi")
    face = ScriptedFace(
        "/set", "/set temperature 0.5", "/set topk 3", "/set seed 7", "/set steps 2", "/set topp 0.9", "/set"
    )
    talk(dialogue, face)
    assert face.said[0] == "temperature 0, topp 1, topk 0, seed 0, steps as many as there is room for"
    assert face.said[-1] == "temperature 0.5, topp 0.9, topk 3, seed 7, steps 2"
    assert dialogue.manner == Manner(SamplerSettings(0.5, 3, 0.9, 7), 2)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("/set temperature hot", "temperature hot: expected a number"),
        ("/set temperature -1", "temperature is -1.0; expected"),
        ("/set steps 0", "steps"),
        ("/set colour 1", "expected temperature, topp, topk, seed or steps"),
        ("/think maybe", "expected on, off, show or fold"),
        ("/think off", "has no switch for thinking"),
        ("/drop x", "expected a whole number"),
        ("/save", "/save needs the name of a file"),
        ("/load /nowhere/chat.json", "No such file"),
        ("/load /dev/zero", "/dev/zero: is no file"),
        ("/save ~nobody-of-that-name/chat.json", "knows no such user"),
        ("/save a\0b", "expected the path of a file"),
        ("/load a\0b", "expected the path of a file"),
        (f"/set seed {'9' * 5000}", "expected a whole number"),
        (f"/drop {'9' * 5000}", "expected a whole number"),
    ],
)
def test_a_command_that_cannot_be_meant_changes_nothing(command: str, words: str) -> None:
    dialogue = scripted_dialogue(b"Yes", "Hi")
    face = ScriptedFace(command)
    talk(dialogue, face)
    (line,) = face.said
    assert line.startswith("error: ") and words in line and line.endswith("; the conversation goes on as it was")
    assert dialogue.manner == Manner(SamplerSettings()) and dialogue.messages == []


def test_thinking_is_switched_off_where_the_template_can() -> None:
    text = byte_text("{% if enable_thinking is false %}-{% endif %}" + TURNS)
    runner = ScriptedRunner([END] * 64, 258, max_rows=64, context=64, prompt_length=1)
    dialogue = Dialogue(text, runner, Manner(SamplerSettings()))
    assert text.tokenizer.decode(dialogue.pose("Hi").prompt)[0] != "-"
    talk(dialogue, ScriptedFace("/think off"))
    assert text.tokenizer.decode(dialogue.pose("Hi").prompt)[0] == "-"
    talk(dialogue, ScriptedFace("/think on"))
    assert text.tokenizer.decode(dialogue.pose("Hi").prompt)[0] != "-"


def test_a_word_of_the_template_is_no_switch_for_thinking() -> None:
    text = byte_text("{{ messages[0].thinking }}thinking " + TURNS)
    runner = ScriptedRunner([END] * 64, 258, max_rows=64, context=64, prompt_length=1)
    dialogue = Dialogue(text, runner, Manner(SamplerSettings()))
    face = ScriptedFace("/think off")
    talk(dialogue, face)
    assert "has no switch for thinking" in face.said[0] and dialogue.template_options == {}


def test_a_conversation_is_saved_and_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    dialogue = scripted_dialogue(b"Yes", "Hi")
    dialogue.restart("Be brief.")
    dialogue.messages += [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "J\u00e4"}]
    talk(dialogue, ScriptedFace(f"/save {path}"))
    other = scripted_dialogue(b"Yes", "Hi")
    face = ScriptedFace(f"/load {path}")
    talk(other, face)
    assert (other.messages, other.system) == (dialogue.messages, "Be brief.")
    assert face.said == [f"{len(dialogue.messages)} messages read from {path}; the next answer begins by reading them"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"messages": 3}',
        '{"messages": [3]}',
        '{"messages": [{"role": 3}]}',
        '{"messages": [{"role": "user"}]}',
        '{"messages": [{"role": "system"}]}',
        '{"messages": [{"role": "user", "content": "\\ud800"}]}',
        "[" * 100_000,
    ],
)
def test_a_file_that_is_no_conversation_changes_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "chat.json").write_text(text)
    dialogue = scripted_dialogue(b"Yes", "Hi")
    face = ScriptedFace("Hi", f"/load {tmp_path}/chat.json")
    talk(dialogue, face)
    assert face.said[-1].startswith("error: ") and len(dialogue.messages) == 2


def test_the_model_is_named() -> None:
    face = ScriptedFace("/model", "/model other")
    talk(scripted_dialogue(b"Yes", "Hi"), face, "tiny.m: llama")
    assert face.said == ["tiny.m: llama", "tiny.m: llama; other needs a start of its own: chat --model other"]


def test_a_path_is_no_command() -> None:
    face = ScriptedFace("/etc/hosts")
    talk(scripted_dialogue(b"A file", "/etc/hosts"), face)
    assert face.text == "A file\n"


def test_a_refused_question_is_one_line_and_the_conversation_goes_on() -> None:
    face = ScriptedFace("Hi" * 99, "Hi")
    runner = ScriptedRunner([*[ord("a")] * 300], 258, max_rows=64, prompt_length=1, context=64)
    talk(Dialogue(byte_text(), runner, Manner(SamplerSettings(), 2)), face)
    assert face.said[0].startswith("error: the conversation with this question has 216 tokens, the context 64; ask a ")
    assert face.text == "aa\n"
    assert face.said[1].endswith("cut at its limit]")


def test_the_place_of_a_bad_byte_is_one_in_the_users_line() -> None:
    face = ScriptedFace("Hi", "ab\udcff")
    talk(scripted_dialogue(b"Yes", "Hi"), face)
    assert face.said[1].startswith(
        "error: character 2 of the text is U+DCFF, half of a pair or a byte that is no UTF-8"
    )


def test_a_system_prompt_that_is_refused_is_told_once_and_changes_nothing() -> None:
    face = ScriptedFace("/system Be brief.", "Hi", "Hi")
    runner = ScriptedRunner([*[ord("a")] * 300], 258, max_rows=64, prompt_length=1, context=64)
    dialogue = Dialogue(byte_text(NO_SYSTEM), runner, Manner(SamplerSettings(), 2))
    talk(dialogue, face)
    refusal = "error: the chat template refused: no system role; the conversation goes on as it was"
    assert [line for line in face.said if line.startswith("error")] == [refusal]
    assert face.text == "aa\naa\n"
    assert dialogue.system is None
    with pytest.raises(InputError, match="no system role"):
        Dialogue(byte_text(NO_SYSTEM), runner, Manner(SamplerSettings(), 2), "Be brief.")


@pytest.mark.parametrize(
    ("context", "words"),
    [(20 + 21 + 100, None), (20 + 4 + 2, "2 of 26 tokens"), (20 + 3, "is full"), (19, "has 20 tokens, the context 19")],
)
def test_a_context_that_fills_up_is_told(context: int, words: str | None) -> None:
    face = ScriptedFace("Hi")
    talk(scripted_dialogue(b"Yes!", "Hi", context=context), face)
    told = [line for line in face.said if not line.startswith("[")]
    assert len(told) == (words is not None) and (words or "") in "".join(told)


def test_a_cancelled_answer_ends_and_the_next_question_is_asked() -> None:
    dialogue = scripted_dialogue(b"one two three", "Hi")
    face = ScriptedFace("Hi", "/nothing", cancel_at=7)
    talk(dialogue, face)
    assert face.text == "one two\n"
    assert face.said[0].endswith("stopped]") and "/nothing" in face.said[1]


def test_lines_of_any_system_until_the_end_of_input() -> None:
    face = Lines(io.StringIO("a\r\n\nb"), io.StringIO())
    assert [face.ask(), face.ask(), face.ask(), face.ask()] == ["a", "", "b", None]


def test_json_lines_are_heard_in_order() -> None:
    out = io.StringIO()
    face = JsonLines(io.StringIO('{"cancel": true}\n{"line": "a"}\nb\n'), out)
    assert [face.ask(), face.ask(), face.ask()] == ["a", "b", None]
    with face.answering() as is_cancelled:
        assert not is_cancelled()  # the end of input is no wish to cut the answer to what came before it
    face.show("x", True)
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [
        *[{"waiting": True}] * 3,
        {"text": "x", "thought": True},
    ]


def test_the_end_of_input_does_not_cut_the_answer() -> None:
    out = io.StringIO()
    face = JsonLines(io.StringIO('{"line": "Hi"}\n'), out)
    talk(scripted_dialogue(b"Yes!", "Hi"), face)
    told = [json.loads(line) for line in out.getvalue().splitlines()]
    assert "".join(each.get("text", "") for each in told) == "Yes!\n"


THINKS = "{{ messages[-1].content }}{% if enable_thinking is not defined or enable_thinking %}<think>{% endif %}"


def test_what_comes_with_a_line_is_for_its_template() -> None:
    off = '{"line": "Hi", "chat_template_kwargs": {"enable_thinking": false}}\n'
    runner = ScriptedRunner([ord("a")] * 99, 258, max_rows=64, prompt_length=1, context=64)
    out = io.StringIO()
    face = JsonLines(io.StringIO(off + '{"line": "Hi"}\n{"line": "Hi", "chat_template_kwargs": [1]}\n'), out)
    talk(Dialogue(byte_text(THINKS), runner, Manner(SamplerSettings(), 1)), face)
    told = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [each["thought"] for each in told if each.get("text", "\n") != "\n"] == [False, True]
    notes = [each["note"] for each in told if "note" in each]
    assert notes[-1] == ('error: chat_template_kwargs is [1]; expected names and values, as {"enable_thinking": false}')


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("{", "argument --chat-template-kwargs: '{' is no JSON; expected an object"),
        ("[1]", "argument --chat-template-kwargs: chat_template_kwargs is [1]; expected names and values"),
        ('{"tools": []}', "chat_template_kwargs holds 'tools', which the conversation itself gives; leave it out"),
    ],
)
def test_variables_that_cannot_be_meant(
    given: str, complaint: str, smollm2_gguf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chat", "--model", str(smollm2_gguf), "--prompt", "Hi", "--chat-template-kwargs", given]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("line", ["null", "[1]", '"Hi"', "12"])
def test_what_is_no_message_is_what_somebody_typed(line: str) -> None:
    assert JsonLines(io.StringIO(line + "\n"), io.StringIO()).ask() == line


def test_a_cancel_is_for_the_lines_before_it() -> None:
    """Also if it comes before the answer to them has begun. The pipe stays open, so that nothing else cancels."""
    out_of, into = os.pipe()
    with open(out_of) as lines, open(into, "w") as program:
        face = JsonLines(lines, io.StringIO())
        for said, cancelled in (
            ('{"cancel": true}\n{"line": "a"}\n', False),
            ('{"line": "b"}\n{"cancel": true}\n{"line": "c"}\n', True),
            ("", False),
        ):
            program.write(said)
            program.flush()
            face.ask()
            with face.answering() as is_cancelled:
                until = time.monotonic() + 60  # another thread reads
                while is_cancelled() != cancelled and time.monotonic() < until:
                    time.sleep(0.01)
                assert is_cancelled() == cancelled
        program.close()
        assert face.ask() is None


@pytest.mark.parametrize(
    ("message", "reason", "waits"),
    [
        ('{"line": null}', "line is null; expected a text", True),
        ('{"line": ["a", "b"]}', 'line is ["a", "b"]; expected a text', True),
        ('{"line": 5}', "line is 5; expected a text", True),
        ('{"line": "a", "cancel": true}', "line and cancel in one message; send them one after the other", True),
        ('{"cancel": null}', "cancel is null; expected true or false", False),
        ('{"cancel": "no"}', 'cancel is "no"; expected true or false', False),
        ('{"cancel": 1}', "cancel is 1; expected true or false", False),
        ('{"text": "a"}', 'a message with "text"; expected line or cancel', False),
        ("{}", "a message with no field; expected line or cancel", False),
    ],
)
def test_a_message_that_means_nothing_is_refused_with_a_note(message: str, reason: str, waits: bool) -> None:
    """And the chat goes on; who sent a line is told that the next one is awaited."""
    out = io.StringIO()
    face = JsonLines(io.StringIO(message + '\n{"line": "Hi"}\n'), out)
    assert face.ask() == "Hi"
    with face.answering() as is_cancelled:
        assert not is_cancelled()
    told = [{"waiting": True}, {"note": f"error: {reason}"}, *([{"waiting": True}] if waits else [])]
    assert [json.loads(line) for line in out.getvalue().splitlines()] == told


def test_a_cancel_that_is_false_cancels_nothing() -> None:
    out = io.StringIO()
    face = JsonLines(io.StringIO('{"line": "Hi"}\n{"cancel": false}\n{"line": "Ho"}\n'), out)
    for line in ("Hi", "Ho"):
        assert face.ask() == line
        with face.answering() as is_cancelled:
            assert not is_cancelled()
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [{"waiting": True}] * 2


def test_a_line_that_is_nested_without_end_is_a_line() -> None:
    face = JsonLines(io.StringIO("[" * 100_000 + "\nb\n"), io.StringIO())
    assert [len(face.ask() or ""), face.ask(), face.ask()] == [100_000, "b", None]


def test_one_answer_as_json(smollm2_gguf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wish = ("--model", str(smollm2_gguf), "--prompt", FRANCE, "--temperature", "0", "--nthreads", "1")
    assert main(["chat", "--json", *wish]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    answer = json.loads(line)
    assert answer.keys() == KEYS
    assert answer["ids"] == [504, 3575, 282, 4649, 314, 7042, 30, 2]
    assert (answer["text"], answer["finish_reason"]) == ("The capital of France is Paris.", "stop")
    assert main(["chat", "--stop", "of Fr", "--system", "Be brief.", *wish]) == 0
    assert capsys.readouterr().out == "The capital \n"


def test_a_conversation_over_pipes(
    smollm2_gguf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{FRANCE}\n\xff\nAnd of Japan?".encode("latin-1"))))
    assert main(["chat", "--model", str(smollm2_gguf), "--temperature", "0", "--nthreads", "1"]) == 0
    told = capsys.readouterr()
    assert told.out == "The capital of France is Paris.\nThe capital of Japan is Tokyo.\n"
    assert "no UTF-8" in told.err and "; 49 of 64 prompt tokens were cached]" in told.err
    assert "seed" not in told.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--json",), ["--json", "--prompt"]),
        (("--json-lines", "--prompt", "Hi"), ["--json-lines", "--prompt"]),
        (("--steps", "0"), ["--steps", "above 0"]),
        ((), ["no chat template", "tuned for chat"]),
        (("--prompt", "Hi"), ["no chat template"]),
    ],
)
def test_what_cannot_work_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: list[str]
) -> None:
    assert main(["chat", "--model", str(tiny_gguf(tmp_path / "a.gguf")), *arguments]) == 2
    told = capsys.readouterr()
    (line,) = told.err.splitlines()
    assert told.out == "" and [word for word in words if word not in line] == []


def test_without_a_tokenizer_there_is_no_chat(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "--model", str(tiny_model_file(tmp_path / "a.m"))]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "chat needs a tokenizer" in line and "--tokenizer" in line and "--ids" not in line
