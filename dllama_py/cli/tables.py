"""Tables as plain text, for terminals and files alike."""

from collections.abc import Sequence


def table(heads: Sequence[str], rows: Sequence[Sequence[object]], left: int = 1) -> str:
    """Lines of columns, each as wide as its widest entry; the first `left` of them aligned to the left."""
    texts = [list(map(str, row)) for row in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return "\n".join("  ".join(_placed(line, widths, left)).rstrip() for line in texts)


def _placed(texts: Sequence[str], widths: Sequence[int], left: int) -> list[str]:
    return [
        text.ljust(width) if column < left else text.rjust(width)
        for column, (text, width) in enumerate(zip(texts, widths, strict=True))
    ]
