"""Standard streams that were closed before this program began (`2>&-`, some services).

The next files that are opened would take their numbers, and what a library then prints would land in a model or a
socket; so each becomes the null device. Nothing is read from it, and what is said to it nobody hears.
"""

import os
import sys


def open_closed_streams() -> None:
    """Before anything else is opened; an exit code is all that then tells how it went."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))
