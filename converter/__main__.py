"""`python -m converter`: chooses the converter and turns failures into one line and an exit code."""

import argparse
import sys
from typing import NoReturn

from converter import convert_model
from dllama_py.errors import DllamaError


class _OneLineParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message} (see {self.prog} --help)\n")


def main(argv: list[str] | None = None) -> int:
    """Run a converter; 0 when the file is written, 2 when the request or the input cannot work."""
    parser = _OneLineParser(prog="python -m converter", description="Convert models for dllama_py.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_OneLineParser)
    model = commands.add_parser(
        "model",
        help="Hugging Face folder or GGUF file to a .m file",
        epilog=convert_model.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    convert_model.add_arguments(model)
    model.set_defaults(run=convert_model.run)
    arguments = parser.parse_args(argv)
    try:
        arguments.run(arguments)
    except DllamaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("error: interrupted, nothing was written", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
