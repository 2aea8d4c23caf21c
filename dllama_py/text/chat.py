"""Chat messages to a prompt, by the model's own template. The only builder of chat prompts: chat, server and tests.

Knows how to run templates; where they are kept, the sandbox they run in and the shield around users' words are next
door.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.meta import find_undeclared_variables

from dllama_py.errors import InputError, UsageError
from dllama_py.text.sandbox import PromptEnvironment, render
from dllama_py.text.shield import Shield
from dllama_py.text.template_sources import folder_sources, gguf_sources
from dllama_py.text.tokenizer import Tokenizer, check_unicode

Messages = Sequence[Mapping[str, Any]]
Tools = Sequence[Mapping[str, Any]]

_OWN = {"messages", "tools", "add_generation_prompt"}
_NOTHING = {"documents": None}  # as transformers passes it: some templates ask whether it is none


class ChatTemplate:
    """The named templates of a model: `default`, and perhaps `tool_use` for requests with tools."""

    def __init__(self, sources: Mapping[str, Any], tokenizer: Tokenizer) -> None:
        """sources: by name. InputError unless all are texts."""
        for name, source in sources.items():
            if not isinstance(source, str):
                raise InputError(
                    f"the chat template {name!r} is a {type(source).__name__}; expected a text; get the files again"
                )
        self._sources: dict[str, str] = dict(sources)
        self._tokenizer = tokenizer
        self._environment = PromptEnvironment()

    @classmethod
    def from_folder(cls, folder: Path, tokenizer: Tokenizer) -> "ChatTemplate":
        """From the files of a Hugging Face folder."""
        return cls(folder_sources(folder), tokenizer)

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any], tokenizer: Tokenizer) -> "ChatTemplate":
        """From the metadata of a GGUF file."""
        return cls(gguf_sources(metadata), tokenizer)

    @property
    def exists(self) -> bool:
        return bool(self._sources)

    @property
    def default_source(self) -> str | None:
        """The template for requests without tools, in Jinja's language."""
        return self._sources.get("default")

    def variables(self) -> set[str]:
        """Names that this template takes from whoever renders it. InputError if it is none."""
        try:
            return find_undeclared_variables(self._environment.parse(self.default_source or ""))
        except TemplateError as error:
            raise InputError(f"the chat template cannot be read: {_one_line(error)}") from error

    def render(
        self,
        messages: Messages,
        *,
        tools: Tools | None = None,
        add_generation_prompt: bool = True,
        options: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt as text, as Hugging Face renders it. options: further variables, as enable_thinking; what
        transformers calls chat_template_kwargs.

        InputError, in one line, if there is no template, if it refuses, fails or takes too much, or a message is
        malformed. To get ids use `encode`: in this text a user's words and control tokens look the same.
        """
        variables = {**_checked(options), "add_generation_prompt": add_generation_prompt, "tools": tools or None}
        return self._render(self._source(tools), variables | {"messages": [_message(message) for message in messages]})

    def encode(
        self,
        messages: Messages,
        *,
        tools: Tools | None = None,
        add_generation_prompt: bool = True,
        options: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """The prompt as ids: control tokens come from the template alone, and there is one begin token if any."""
        source = self._source(tools)
        said = {**_checked(options), "messages": [_message(message) for message in messages], "tools": tools or None}
        shield = Shield(self._tokenizer, [source, said])
        variables = {**shield.cover(said), "add_generation_prompt": add_generation_prompt}
        ids = shield.encode(self._render(source, variables))
        special = self._tokenizer.special_ids
        if special.bos_id is None or not special.add_bos or ids[:1] == [special.bos_id]:
            return ids
        return [special.bos_id, *ids]

    def _source(self, tools: Tools | None) -> str:
        wanted = ("tool_use", "default") if tools else ("default",)
        source = next((self._sources[name] for name in wanted if name in self._sources), None)
        if source is None:
            raise InputError(
                "the model has no chat template, so it cannot chat; expected one in its tokenizer files; "
                "use a model tuned for chat, or let this one continue a text: inference --prompt TEXT"
            )
        if tools and "tools" not in source:
            raise InputError("tools not supported: the model's chat template has no place for them; ask without tools")
        return source

    def _render(self, source: str, variables: dict[str, Any]) -> str:
        ids = self._tokenizer.special_ids
        names = {"bos_token": ids.bos_id, "eos_token": ids.eos_id}
        tokens = {name: self._tokenizer.token_text(id) for name, id in names.items() if id is not None}
        try:
            return render(self._environment, source, _NOTHING | tokens | variables)
        except TemplateError as error:
            raise InputError(f"the chat template refused: {_one_line(error)}") from error
        except Exception as error:  # whatever Python raises in an operation that the template asks for
            raise InputError(f"the chat template failed: {type(error).__name__}: {_one_line(error)}") from error


def _checked(options: Mapping[str, Any] | None) -> dict[str, Any]:
    taken = sorted(_OWN & set(options or {}))
    if taken:
        raise UsageError(f"chat_template_kwargs holds {taken[0]!r}, which the conversation itself gives; leave it out")
    return dict(options or {})


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message with its content as one string: a list of text parts is joined. One without content stays without it:
    templates ask whether there is any.
    """
    if not isinstance(message.get("role"), str):
        raise InputError(f"a chat message has the role {message.get('role')!r}; expected a name such as 'user'")
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(map(_part_text, content))
    if not isinstance(content, str | None):
        raise InputError(f"a chat message has a {type(content).__name__} as content; expected a text or text parts")
    check_unicode(content or "")  # here, where the place is one in the user's own words
    return {**message, "content": content} if "content" in message else dict(message)


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    kind = part.get("type") if isinstance(part, dict) else type(part).__name__
    raise InputError(f"a chat message holds a part of type {kind!r}; only parts of type 'text' can be read")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
