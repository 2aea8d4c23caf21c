"""One line on standard error that says how far a long work is; nothing where no terminal is."""

import sys


def show_bytes(what: str, done_bytes: int, total_bytes: int) -> None:
    """The share that is done, and what was done last."""
    if sys.stderr.isatty():
        end = "\n" if done_bytes == total_bytes else ""
        print(f"\r\x1b[K{done_bytes / total_bytes:4.0%}  {what}", end=end, file=sys.stderr, flush=True)
