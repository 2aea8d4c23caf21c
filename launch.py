"""Fetch a model and start it: python launch.py [NAME | OWNER/REPO[:FILE]]; without a name the known ones are listed."""

import os
import signal
import sys
from pathlib import Path

CLONE = Path(__file__).resolve().parent
ENVIRONMENT = CLONE / ".venv"


def main() -> int:
    python = ENVIRONMENT / "bin" / "python"
    if Path(sys.prefix) != ENVIRONMENT and python.exists():
        os.execv(python, [str(python), __file__, *sys.argv[1:]])
    if sys.prefix == sys.base_prefix:
        print("There is no environment yet: run `make install`, or `make run` to see it work at once.", file=sys.stderr)
        return 2

    from dllama_py.cluster.streams import open_closed_streams

    open_closed_streams()
    interrupt = signal.signal(signal.SIGINT, signal.SIG_DFL)  # an exception while modules are half loaded helps nobody
    from dllama_py.cli.launch import main as launch

    signal.signal(signal.SIGINT, interrupt)
    return launch(sys.argv[1:], CLONE)


if __name__ == "__main__":
    sys.exit(main())
