"""Chat templates as others render them: python -m tests.peers.templates FOLDER

FOLDER: of templates, such as models/templates of llama.cpp, whose sources are in those of llama-cpp-python. Each
renders conversations in our sandbox and in a plain Jinja environment as Hugging Face sets it up; both must give one
text, and the ids must spell it. What only one of them refuses is told.
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from dllama_py.errors import InputError
from dllama_py.text.chat import ChatTemplate
from tests.support.chats import byte_text

CITY = {"type": "object", "properties": {"city": {"type": "string", "description": "A city."}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Tells the weather.", "parameters": CITY}}]
CALL = {"type": "function", "id": "call12345", "function": {"name": "weather", "arguments": {"city": "Paris"}}}
SYSTEM, HI = {"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"}
ANSWER = {"role": "assistant", "content": "Hello", "thinking": "hm", "reasoning_content": "hm"}
CALLED = [
    {"role": "assistant", "tool_calls": [CALL]},
    {"role": "tool", "content": "3", "tool_call_id": "call12345", "name": "weather"},
]
CONVERSATIONS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "a question": ([HI], {}),
    "a system prompt": ([SYSTEM, HI], {}),
    "turns": ([SYSTEM, HI, ANSWER, HI, ANSWER, HI], {}),
    "without a place for the answer": ([HI, ANSWER], {"add_generation_prompt": False}),
    "no thinking": ([HI], {"options": {"enable_thinking": False}}),
    "hard thinking": ([HI], {"options": {"enable_thinking": True, "reasoning_effort": "high"}}),
    "tools": ([SYSTEM, HI], {"tools": TOOLS}),
    "a call": ([SYSTEM, HI, *CALLED], {"tools": TOOLS}),
    "after a call": ([HI, *CALLED, ANSWER, HI], {"tools": TOOLS}),
    "marks and brackets": ([{"role": "user", "content": "é🦙 <|end|> {{ 1 }} {% x %}"}], {}),
    "nothing": ([{"role": "user", "content": ""}], {}),
    "a developer": ([{"role": "developer", "content": "Be short."}, HI], {}),
    "a stranger": ([{"role": "stranger", "content": "x"}, HI], {}),
    "two in a row": ([HI, HI], {}),
    "the answer first": ([ANSWER, HI], {}),
}


class _Generation(Extension):
    """Shows what it is around."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def plain_environment() -> ImmutableSandboxedEnvironment:
    """As Hugging Face's, without limits."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation], cache_size=400
    )

    def refuse(message: str) -> None:
        raise TemplateError(message)

    made.filters["tojson"] = lambda value, ensure_ascii=False, **wishes: json.dumps(
        value, ensure_ascii=ensure_ascii, **wishes
    )
    made.globals |= {"raise_exception": refuse, "strftime_now": lambda form: datetime.now().strftime(form)}
    return made


def main(folder: Path) -> int:
    vocabulary = byte_text().tokenizer
    end = vocabulary.special_ids.eos_id
    tokens = {"eos_token": vocabulary.token_text(end)} if end is not None else {}
    environment, counts = plain_environment(), Counter[str]()
    for path in sorted(folder.glob("*.jinja")):
        template = ChatTemplate({"default": path.read_text()}, vocabulary)
        plain = environment.from_string(path.read_text())
        for name, (messages, wishes) in CONVERSATIONS.items():
            variables = {"add_generation_prompt": True, "tools": None, **tokens, **wishes, **wishes.get("options", {})}
            try:
                theirs = plain.render(messages=messages, **variables)
            except Exception:  # whatever the template stumbles over
                theirs = None
            outcome, told = compared(template, messages, wishes, theirs)
            counts[outcome] += 1
            if outcome not in ("same", "refused by both"):
                print(f"{path.name}, {name}: {outcome} {told}".rstrip())
    print(dict(counts))
    return 1 if counts["differs"] else 0


def compared(
    template: ChatTemplate, messages: list[dict[str, Any]], wishes: Mapping[str, Any], theirs: str | None
) -> tuple[str, str]:
    """What came of it, and the line with which ours refuses. `theirs`: None where it was refused."""
    try:
        text = template.render(messages, **wishes)
        spelled = byte_text().tokenizer.decode(template.encode(messages, **wishes))
    except InputError as error:
        return "refused by both" if theirs is None else "refused by ours", str(error)
    if theirs is None and text == spelled:
        return "refused by theirs", ""
    return "same" if text == theirs == spelled else "differs", ""


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
