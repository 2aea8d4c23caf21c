"""Which row of docs/troubleshooting.md a message belongs to. Knows messages by their words, not who wrote them.

The words stand here and not beside each error, because one row answers messages of several rooms, and because also
those need a row that are no errors of ours: a rank that was killed cannot raise any.
"""

import os
import re

PAGE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "docs", "troubleshooting.md")

# Anchor of a row -> what its messages say; the first that fits is taken. Messages that end in a command have none, so
# that it can be copied.
ROWS = {
    "no-model": "no --model given and none fetched",
    "empty-mpich": r"mpich 0\.0\.0 that is installed is an empty package",
    "no-mpi": "but MPI cannot be loaded",
    "two-mpis": "but MPI gives each a world of",
    "expected-ranks": "but DLLAMA_EXPECT_RANKS says",
    "versions": "rank .* has .*, rank 0 on .* has ",
    "ended-before": "the program has ended before its engine",
    "host-key": "accepts no key of this user|another host key than before|a host key that is not known",
    "host-away": "does not answer: is it on|has no ssh server on that port|is no known name: write|by ssh .* must work",
    "host-clone": "has no Python at .*: the clone must|has another version of this program|has .*, this machine has ",
    "host-mpi": "has no MPI in its environment|this machine has no ssh, which",
    "rank-counts": "ranks cannot share",
    "kernel-folder": "compiled kernels cannot be kept there",
    "memory": "rank .* needs .* are free; ",
    "no-room": "need .* of memory on rank|does not fit these ranks",
    "other-plan": "--plan .*: (made for|rank .* was on)",
    "killed-9": r"was killed by signal 9\b",
    "out-of-memory": "out of memory",
    "local-copy": "the root's (bytes are used|file in|file; copy)",
    "not-the-file": "is a Git LFS pointer|is a web page",
    "cut-short": "it was cut short|was written to while it was loaded|ends at byte .*, the file at ",
    "no-such-model": "no file or folder, and no fetched model",
    "one-shard": "is one file of a Hugging Face checkpoint",
    "not-supported": "(model_type|architecture) .* is not supported",
    "quantised": "the checkpoint is quantised by .*, which cannot be read",
    "other-tensors": "tensors .* are no part of a",
    "not-finite": "holds a (value|scale) that is infinite|its weights may be damaged",
    "parts": r"part \d+ of \d+|has another part behind its first|get all parts again",
    "no-tokenizer": "holds no tokenizer|needs a tokenizer and the model has none",
    "other-tokenizer": "they do not belong together",
    "disk": "the disk has .* left|B of free disk, .* are needed|the disk took no more",
    "hub": "cannot be reached|no hub answers there|answered 404",
    "silence": "no sign of life from rank",
    "no-end": "but MPI has not ended for",
    "killed": "was killed by signal",
    "lost-touch": "lost touch with another rank",
    "other-numbers": "has not the numbers of the other",
    "damaged": "a message of rank .* cannot be used",
    "too-long": "a message came that is longer than expected",
}


def row_of(message: str) -> str | None:
    """The anchor of the row, None where the page has none."""
    return next((row for row, words in ROWS.items() if re.search(words, message)), None)


def with_row(message: object) -> str:
    """The message, and where to read on: `... (docs/troubleshooting.md#cut-short)`. Still one line."""
    row = row_of(str(message))
    if row is None:
        return str(message)
    whose = "" if os.path.exists(PAGE) else " of the project"  # an installed package has no pages
    return f"{message} (docs/troubleshooting.md#{row}{whose})"
