"""Editing the user's lines at a terminal, by prompt_toolkit: history, pasted texts, texts of several lines."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from dllama_py.cluster.terminal import is_open

HISTORY_LINES = 1000


class _History(FileHistory):
    """Kept in a file if it can be; the newest lines of it are offered."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._folder = path.parent

    def load_history_strings(self) -> Iterable[str]:
        with suppress(OSError):
            for number, line in enumerate(super().load_history_strings()):  # the newest first
                if number == HISTORY_LINES:
                    return
                yield line

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            super().store_string(string)


def line_editor(history: Path) -> PromptSession[str]:
    """Enter asks, but for a text that began with three quotes; Alt-Enter breaks a line; a pasted text is one line of
    the conversation, however many lines it has.
    """
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_open(buffer.text):
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return PromptSession(
        history=_History(history), key_bindings=keys, multiline=True, prompt_continuation="  ", enable_suspend=True
    )
