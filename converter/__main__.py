"""`python -m converter ...`: a thin door to `dllama convert ...`."""

import sys

from dllama_py import cli
from dllama_py.cluster.streams import open_closed_streams


def main(argv: list[str] | None = None) -> int:
    """Runs a converter: 0 when the file is written, 2 when the request or the input cannot work."""
    return cli.main(["convert", *(sys.argv[1:] if argv is None else argv)])


if __name__ == "__main__":
    open_closed_streams()
    sys.exit(main())
