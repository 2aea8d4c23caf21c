"""The program on a host with a file of its own: python -m tests.support.other_copy FILE [MODE] [options of dllama].

The last rank finds FILE where the root has its model. (On real hosts it is the same path on another disk.)
"""

import os
import sys
from dataclasses import replace

from dllama_py.cluster import watcher
from dllama_py.transport.environment import launched_rank, launched_size


def main() -> None:
    if watcher.is_wanted():
        sys.exit(watcher.watch())
    from dllama_py.cli import main as run
    from dllama_py.sharding import local_copies

    path, *arguments = sys.argv[1:]
    if launched_rank(os.environ) == (launched_size(os.environ) or 1) - 1:
        open_copy = local_copies.open_copy
        local_copies.open_copy = lambda copy: open_copy(replace(copy, path=path))
    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
