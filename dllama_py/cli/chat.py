"""Mode `chat`: a conversation by the model's own template, or with --prompt one answer."""

import argparse
import json
from collections.abc import Callable
from typing import Any

from dllama_py.boot import Engine
from dllama_py.cli import options
from dllama_py.cli.chat_commands import Talk, obeyed
from dllama_py.cli.faces import Face, opened_face
from dllama_py.cli.progress import shown_progress
from dllama_py.cli.progress_lines import told_progress
from dllama_py.cli.record import Record, result
from dllama_py.cli.running import announce, running_engine, say, tell_notes
from dllama_py.cli.speculating import (
    add_speculation_options,
    speculating_settings,
    speculation_figures,
    speculation_note,
    speculation_of,
)
from dllama_py.cli.stages_record import HopWatch
from dllama_py.completion import Finish, FinishReason, Piece
from dllama_py.description import model_lines
from dllama_py.dialogue import WAYS_ON, Dialogue, Manner
from dllama_py.engine.speculation import Speculating
from dllama_py.errors import DllamaError, UsageError
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.orders import Orders
from dllama_py.prompting import Text, check_vocabulary, need_text, open_text, template_options
from dllama_py.text.thinking import ThoughtSplitter

EPILOG = """examples:
  python -m dllama_py chat --model model.gguf --system "You answer in verse."
  printf 'Hello\\nWhat did I say?\\n' | mpirun -np 2 python -m dllama_py chat"""

SCARCE = 0.1  # of the context; when less is left, it is said


def add_options(parser: options.Parser) -> None:
    parser.epilog, parser.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    parser.add_argument("--prompt", metavar="TEXT", help="one question, answered once")
    parser.add_argument("--system", metavar="TEXT", help="system prompt (default: the template's own, if any)")
    parser.add_argument("--steps", type=options.positive, metavar="N", help="tokens of an answer at most")
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="ends an answer; may be repeated")
    parser.add_argument("--json-lines", action="store_true", help="for programs: JSON objects in and out, one a line")
    parser.add_argument(
        "--chat-template-kwargs",
        type=_template_options,
        default={},
        metavar="JSON",
        help="""variables of the model's template, such as '{"enable_thinking": false}'""",
    )
    options.add_model_options(parser)
    options.add_engine_options(parser)
    options.add_sampling_options(parser, temperature=0.8, top_p=0.9)
    add_speculation_options(parser)
    options.add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.json and arguments.prompt is None:
        raise UsageError("--json tells one answer; give its question with --prompt, or take --json-lines")
    if arguments.json_lines and arguments.prompt is not None:
        raise UsageError("--json-lines is for conversations, --prompt for one answer; give one of them")
    sampling, kwargs = options.sampler_settings(arguments), arguments.chat_template_kwargs
    manner = Manner(sampling, arguments.steps, arguments.stop, kwargs)
    texts: list[Text] = []

    def check(checkpoint: Checkpoint, orders: Orders) -> None:
        texts.append(_checked_text(arguments, checkpoint, orders))

    progress = told_progress if arguments.json_lines else shown_progress
    with running_engine(arguments, check, speculating_settings(arguments), progress=progress) as engine:
        if engine is None:
            return 0
        speculation = speculation_of(arguments, engine, manner.sampling, texts[0].tokenizer.vocab_size)
        dialogue = Dialogue(texts[0], engine.runner, manner, arguments.system, speculation)
        if arguments.prompt is not None:
            announce(engine, manner.sampling, say, arguments.verbose)
            _answer_once(engine, dialogue, arguments)
            return 0
        with opened_face(arguments.json_lines) as face:
            announce(engine, manner.sampling, face.say, arguments.verbose)
            talk(dialogue, face, next(model_lines(engine.checkpoint, engine.orders)))
    return 0


def _checked_text(arguments: argparse.Namespace, checkpoint: Checkpoint, orders: Orders) -> Text:
    """The model can chat: known before anything is loaded."""
    text = need_text(open_text(checkpoint, arguments.tokenizer), "chat")
    check_vocabulary(text, checkpoint)
    words = "Hello" if arguments.prompt is None else arguments.prompt
    ids = text.chat_ids(words, arguments.system, arguments.chat_template_kwargs)
    if arguments.prompt is not None:  # else it is known now that the template takes what is wanted
        orders.check_prompt(ids)
    tell_notes(text)
    return text


def _template_options(text: str) -> dict[str, Any]:
    """A type for argparse."""
    try:
        return template_options(json.loads(text))
    except (ValueError, RecursionError):
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is no JSON; expected an object") from None
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _answer_once(engine: Engine, dialogue: Dialogue, arguments: argparse.Namespace) -> None:
    question = dialogue.pose(arguments.prompt)
    watch, record = HopWatch(engine), Record()
    for event in dialogue.answer(question, lambda: False):
        record.add(event)
        if isinstance(event, Piece | Finish) and not arguments.json:
            print(event.text, end="", flush=True)
    if arguments.json:
        figures = speculation_figures(arguments, dialogue.speculation, record)
        print(json.dumps(result(engine, question.prompt, record, watch) | figures), flush=True)
    else:
        print(flush=True)
        say(_statistics(record, len(question.prompt), dialogue.speculation))


def talk(dialogue: Dialogue, face: Face, model: str = "") -> None:
    """Until the end of input, /quit or /exit. What one line cannot have is said, and the next is asked for. `model`:
    a sentence about it.
    """
    context = Talk(dialogue, face, model)
    while (line := face.ask()) is not None:
        words = line.strip()
        with face.answering() as is_cancelled:
            if words in ("/quit", "/exit"):
                return
            if words and not obeyed(words, context):
                _answer(words, dialogue, face, is_cancelled)


def _answer(words: str, dialogue: Dialogue, face: Face, is_cancelled: Callable[[], bool]) -> None:
    try:
        question = dialogue.pose(words, template_options(face.template_options))
    except DllamaError as error:
        face.say(f"error: {error}")
        return
    record = Record()
    splitter = ThoughtSplitter(inside=question.thinks)
    for event in dialogue.answer(question, is_cancelled):
        record.add(event)
        if isinstance(event, Piece | Finish):
            for text, thought in splitter.feed(event.text):
                face.show(text, thought)
    for text, thought in splitter.finish():
        face.show(text, thought)
    face.end_line()
    if record.ids:
        face.say(_statistics(record, len(question.prompt), dialogue.speculation))
    _warn_if_scarce(dialogue, face)


def _statistics(record: Record, n_prompt: int, speculation: Speculating) -> str:
    rate = f", {record.decode_tok_s:.1f} tok/s" if record.decode_tok_s else ""
    rate += speculation_note(speculation, record)
    end = {FinishReason.LENGTH: ", cut at its limit", None: ", stopped"}.get(record.finish, "")
    return (
        f"[{len(record.ids)} tokens{rate}, the first after {record.first_token_s:.2f} s; "
        f"{n_prompt - record.n_prefilled} of {n_prompt} prompt tokens were cached{end}]"
    )


def _warn_if_scarce(dialogue: Dialogue, face: Face) -> None:
    if dialogue.room == 0:
        face.say(f"the context of {dialogue.context} tokens is full; {WAYS_ON}")
    elif dialogue.room < SCARCE * dialogue.context:
        face.say(f"{dialogue.room} of {dialogue.context} tokens of context are left; {WAYS_ON}")
