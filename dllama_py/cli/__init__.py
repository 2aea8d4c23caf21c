"""The command line: one module a mode, imported when its mode is called. The only room that prints.

Without a mode the mode is inference. A user's error is one line on standard error, from one rank, with exit code 2.
"""

import importlib
import os
import sys

from dllama_py.cli.options import Parser
from dllama_py.errors import DllamaError
from dllama_py.transport.environment import launched_rank
from dllama_py.transport.failure import AgreedFailure

MODES = {
    "inference": "answer a prompt once",
    "logits": "write the logits of given ids to a .npy file",
    "tokenize": "show the token ids of a text",
    "inspect": "show what a model file holds and what it needs on 1, 2, 4 and 8 nodes",
    "convert": "write a .m file from a Hugging Face folder or a GGUF file",
    "synth": "write a model of random weights in the shape of a known one",
    "bench": "measure prefill and decode against the memory's speed",
}

ALONE = ("tokenize", "inspect", "convert", "synth")  # one process does it, however many a launcher started

OVERVIEW = """usage: dllama [MODE] [options]          alone, or under mpirun -np N

modes (inference if none is given; each has --help):
"""


def main(argv: list[str] | None = None) -> int:
    """Runs a mode; its exit code: 0 done, 2 wrong usage or unusable input, 3 the cluster failed."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] in (["-h"], ["--help"]):
        print(OVERVIEW + "".join(f"  {mode:<11}{what}\n" for mode, what in MODES.items()), end="")
        return 0
    mode, rest = (
        (arguments[0], arguments[1:]) if arguments and not arguments[0].startswith("-") else ("inference", arguments)
    )
    try:
        return _run(mode, rest)
    except AgreedFailure as failure:
        return _explain(failure.error)
    except DllamaError as error:
        return _explain(error) if launched_rank(os.environ) in (None, 0) else error.exit_code
    except KeyboardInterrupt:
        return 130


def _split(arguments: list[str]) -> tuple[str, list[str]]:
    """The mode and its options; without a mode it is inference."""
    if arguments and not arguments[0].startswith("-"):
        return arguments[0], arguments[1:]
    return "inference", arguments


def _run(mode: str, arguments: list[str]) -> int:
    parser = Parser(prog=f"dllama {mode}", description=MODES.get(mode))
    if mode not in MODES:
        parser.error(f"no mode {mode!r}; the modes are {', '.join(MODES)}")
    module = importlib.import_module(f"dllama_py.cli.{mode}")
    module.add_options(parser)
    parsed = parser.parse_args(arguments)
    if mode in ALONE and launched_rank(os.environ) not in (None, 0):
        return 0
    code: int = module.run(parsed)
    return code


def _explain(error: DllamaError) -> int:
    print(f"error: {error}", file=sys.stderr)
    return error.exit_code
