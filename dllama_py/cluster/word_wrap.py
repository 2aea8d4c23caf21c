"""Text that comes in pieces, broken between words at the edge of a terminal. Knows no terminal."""

from prompt_toolkit.utils import get_cwidth


class WordWrap:
    """Every piece is shown at once; a word that turns out to cross the edge is taken back and begins the next line.

    The last column stays free: terminals differ in where the cursor is behind a letter in it.
    """

    def __init__(self) -> None:
        self._column = 0
        self._word = ""  # the letters since the last space, which can still be taken back

    @property
    def at_start(self) -> bool:
        """Whether the next letter begins a line."""
        return self._column == 0

    def feed(self, text: str, n_columns: int) -> str:
        """What to write for more of the text, on a terminal of so many columns."""
        return "".join(self._next(letter, n_columns - 1) for letter in text)

    def _next(self, letter: str, n_columns: int) -> str:
        if letter == "\n":
            self._column, self._word = 0, ""
            return letter
        if letter in " \t":
            self._word = ""
            n_wide = 8 - self._column % 8 if letter == "\t" else 1
            return self._place(letter, n_wide) if self._column + n_wide <= n_columns else self._break("")
        n_wide = get_cwidth(letter)
        before = self._word
        self._word = "" if n_wide > 1 else before + letter  # between wide letters, as of Chinese, a line may break
        if self._column + n_wide <= n_columns:
            return self._place(letter, n_wide)
        n_back = get_cwidth(before)
        if n_back and n_back < self._column:
            return "\b" * n_back + " " * n_back + self._break(before + letter)
        return self._break(letter)

    def _place(self, text: str, n_wide: int) -> str:
        self._column += n_wide
        return text

    def _break(self, text: str) -> str:
        self._column = get_cwidth(text)
        return f"\n{text}"
