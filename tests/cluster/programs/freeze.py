"""The program, of which one rank freezes at a given call: python freeze.py RANK MODULE:NAME COUNT ARGUMENTS..."""

import importlib
import os
import signal
import sys
from typing import Any

from dllama_py.cluster import watcher


def main() -> int:
    if watcher.is_wanted():
        return watcher.watch()
    rank, place, count, *arguments = sys.argv[1:]
    if os.environ["PMI_RANK"] == rank:
        freeze_at(place, int(count))
    from dllama_py.cli import main as run

    return run(arguments)


def freeze_at(place: str, count: int) -> None:
    """In the call of that number."""
    module_name, _, path = place.partition(":")
    *owners, name = path.split(".")
    owner: Any = importlib.import_module(module_name)
    for each in owners:
        owner = getattr(owner, each)
    original, calls = getattr(owner, name), 0

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count:
            os.kill(os.getpid(), signal.SIGSTOP)
        return original(*arguments, **named)

    setattr(owner, name, call)


if __name__ == "__main__":
    sys.exit(main())
