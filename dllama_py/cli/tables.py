"""Tables as plain text, for terminals and files alike."""

from collections.abc import Container, Sequence


def table(heads: Sequence[str], rows: Sequence[Sequence[object]], left: int = 1, also_left: Container[int] = ()) -> str:
    """Lines of columns, each as wide as its widest entry; the first `left` of them, and those with the numbers
    `also_left`, aligned to the left.
    """
    texts = [list(map(str, row)) for row in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return "\n".join("  ".join(_placed(line, widths, left, also_left)).rstrip() for line in texts)


def _placed(texts: Sequence[str], widths: Sequence[int], left: int, also_left: Container[int]) -> list[str]:
    return [
        text.ljust(width) if column < left or column in also_left else text.rjust(width)
        for column, (text, width) in enumerate(zip(texts, widths, strict=True))
    ]
