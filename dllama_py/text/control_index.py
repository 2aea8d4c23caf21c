"""Where a text spells a control token, or a part that words before or behind it would complete to one.

Made once for a vocabulary: some have thousands of control tokens, and every message of a chat is looked through.
"""

from collections.abc import Collection

from dllama_py.text.added_tokens import AddedTokens


class ControlIndex:
    def __init__(self, controls: Collection[str]) -> None:
        self._controls = frozenset(controls)
        self._added = AddedTokens(dict(enumerate(sorted(controls))), longest_first=False)
        self._longest = max(map(len, controls), default=0)
        self._heads = {control[:stop] for control in controls for stop in range(1, len(control) + 1)}
        self._tails = {control[start:] for control in controls for start in range(1, len(control))}
        self._all = "\0".join(sorted(controls))

    def starts(self, text: str) -> set[int]:
        """Every place where a control token begins."""
        return set(self._added.starts(text))

    def open_starts(self, text: str, stop: int) -> set[int]:
        """Every place before `stop` from which to there a control token begins, whole or not."""
        return {start for start in range(max(0, stop - self._longest), stop) if text[start:stop] in self._heads}

    def is_part(self, words: str) -> bool:
        """Whether words lie within a longer control token, or begin with what ends one."""
        if any(words[:length] in self._tails for length in range(1, min(len(words), self._longest) + 1)):
            return True
        if words in self._controls:
            return any(words in control for control in self._controls if control != words)
        return bool(words) and len(words) < self._longest and words in self._all
