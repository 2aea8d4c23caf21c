"""What a line that begins with a slash does in a chat. Knows the conversation and the user, not the model's steps."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from dllama_py.cli.faces import Face
from dllama_py.dialogue import Dialogue
from dllama_py.errors import DllamaError, InputError, UsageError, did_you_mean
from dllama_py.formats.complete_file import complete_or_gone
from dllama_py.settings import check_number, checked_path

HELP = """/reset             forget the conversation
/system [TEXT]     another system prompt, or none; forgets the conversation
/drop [N]          forget the N oldest turns; alone, until half is free
/think on|off      whether the model thinks, if its template can switch it
/think show|fold   whether a terminal shows the thoughts
/set [NAME VALUE]  temperature, topp, topk, seed or steps; alone, shows them
/save FILE         write the conversation down
/load FILE         go on with a conversation that was written down
/model             which model this is
/help              this list
/quit              end; so do /exit and the end of input
Alt-Enter breaks a line; \"\"\" begins and ends a longer text."""

_MOST_DIGITS = 40
_MOST_BYTES = 64 << 20  # of a conversation; a context of a million tokens is some 5 MB
_THINKING_SWITCHES = ("enable_thinking", "thinking")  # variables of templates: Qwen3 and others; DeepSeek V3.1


@dataclass(frozen=True, slots=True)
class Talk:
    """What commands act on. `model`: a sentence about it."""

    dialogue: Dialogue
    face: Face
    model: str


def obeyed(words: str, talk: Talk) -> bool:
    """Whether the line is a command; if so it is carried out, and what came of it is said."""
    command, _, rest = words.partition(" ")
    if command not in COMMANDS:
        if not command.startswith("/") or "/" in words[1:] or rest:
            return False  # a path, or words
        talk.face.say(f"there is no command {command}{did_you_mean(command, COMMANDS)}; /help lists them")
        return True
    try:
        talk.face.say(COMMANDS[command](talk, rest.strip()))
    except DllamaError as error:
        talk.face.say(f"error: {error}; the conversation goes on as it was")
    return True


def _help(talk: Talk, rest: str) -> str:
    return HELP


def _reset(talk: Talk, rest: str) -> str:
    talk.dialogue.restart(talk.dialogue.system)
    return "the conversation begins anew"


def _system(talk: Talk, rest: str) -> str:
    talk.dialogue.restart(rest or None)
    return "another system prompt" if rest else "no system prompt but the template's own"


def _drop(talk: Talk, rest: str) -> str:
    n_turns = _whole("/drop", rest) if rest else None
    n_dropped = talk.dialogue.drop_oldest(n_turns)
    if not n_dropped:
        return "no turn forgotten; the conversation is as it was"
    return f"{n_dropped} of the oldest turns forgotten; the next answer begins by reading the rest again"


def _think(talk: Talk, rest: str) -> str:
    if rest in ("show", "fold"):
        return "thoughts are folded at a terminal only; here they are always shown"
    if rest not in ("on", "off"):
        raise UsageError(f"/think {rest}: expected on, off, show or fold")
    switch = next((name for name in _THINKING_SWITCHES if name in talk.dialogue.template_variables), None)
    if switch is None:
        raise UsageError("the model's chat template has no switch for thinking (enable_thinking)")
    talk.dialogue.template_options[switch] = rest == "on"
    return f"thinking is {rest}"


def _set(talk: Talk, rest: str) -> str:
    manner = talk.dialogue.manner
    name, _, value = rest.partition(" ")
    sampling = manner.sampling
    match name:
        case "":
            steps = "as many as there is room for" if manner.n_tokens is None else manner.n_tokens
            return (
                f"temperature {sampling.temperature:g}, topp {sampling.top_p:g}, topk {sampling.top_k}, "
                f"seed {sampling.seed}, steps {steps}"
            )
        case "temperature":
            manner = replace(manner, sampling=replace(sampling, temperature=_real(name, value)))
        case "topp":
            manner = replace(manner, sampling=replace(sampling, top_p=_real(name, value)))
        case "topk":
            manner = replace(manner, sampling=replace(sampling, top_k=_whole(name, value)))
        case "seed":
            manner = replace(manner, sampling=replace(sampling, seed=_whole(name, value)))
        case "steps":
            n_tokens = _whole(name, value)
            check_number("steps", n_tokens)
            manner = replace(manner, n_tokens=n_tokens)
        case _:
            raise UsageError(f"/set {name}: expected temperature, topp, topk, seed or steps")
    talk.dialogue.manner = manner
    return f"{name} is {value.strip()}"


def _save(talk: Talk, rest: str) -> str:
    path = _path("/save", rest)
    data = json.dumps({"messages": talk.dialogue.messages}, ensure_ascii=False, indent=1).encode() + b"\n"
    with complete_or_gone(path, len(data), "FILE") as file:
        file.write(data)
    return f"{len(talk.dialogue.messages)} messages written to {path}"


def _load(talk: Talk, rest: str) -> str:
    path = _path("/load", rest)
    try:
        talk.dialogue.resume(json.loads(_text_of(path))["messages"])
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; give a file that /save wrote") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{path}: is no conversation; give a file that /save wrote") from None
    return f"{len(talk.dialogue.messages)} messages read from {path}; the next answer begins by reading them"


def _text_of(path: Path) -> str:
    """Of a file, not of a device or a pipe, which may never end. ValueError if it is too long or no UTF-8."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: is no file; give one that /save wrote")
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"longer than {_MOST_BYTES} bytes")
    return data.decode()


def _model(talk: Talk, rest: str) -> str:
    other = f"; {rest} needs a start of its own: chat --model {rest}" if rest else ""
    return f"{talk.model}{other}"


def _path(command: str, rest: str) -> Path:
    if not rest:
        raise UsageError(f"{command} needs the name of a file")
    return checked_path(f"the file of {command}", rest)


def _whole(name: str, text: str) -> int:
    if not text.strip().isdecimal() or len(text) > _MOST_DIGITS:
        raise UsageError(f"{name} {text[:_MOST_DIGITS]}: expected a whole number")
    return int(text)


def _real(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{name} {text}: expected a number") from None


COMMANDS: dict[str, Callable[[Talk, str], str]] = {
    "/help": _help,
    "/reset": _reset,
    "/system": _system,
    "/drop": _drop,
    "/think": _think,
    "/set": _set,
    "/save": _save,
    "/load": _load,
    "/model": _model,
}
