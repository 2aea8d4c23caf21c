"""The command line: one module a mode, imported when its mode is called. The only room that prints.

Each has `add_options(parser)` and `run(arguments)`, which returns the exit code. Without a mode the mode is inference.
A user's error is one line on standard error, from one rank, with exit code 2.
"""

import importlib
import importlib.metadata
import io
import os
import sys
import time

from dllama_py.cli.options import PROGRAM, Parser
from dllama_py.cli.workers import asks_for_workers, equivalent
from dllama_py.errors import ClusterError, DllamaError, UsageError, did_you_mean, machine_explained
from dllama_py.transport.environment import launched_rank
from dllama_py.transport.failure import INTERRUPTED, OUTPUT_CLOSED, PATIENCE_S, AgreedFailure
from dllama_py.troubleshooting import with_row

MODES = {
    "inference": "answer a prompt once",
    "chat": "talk with the model",
    "logits": "write the logits of given ids to a .npy file",
    "perplexity": "measure how well the model foretells a text",
    "tokenize": "show the token ids of a text",
    "inspect": "show what a model file holds and what it needs on 1, 2, 4 and 8 nodes",
    "plan": "show which layers would go to which node of a pipeline, and how fast it would be",
    "convert": "write a .m file from a Hugging Face folder or a GGUF file",
    "synth": "write a model of random weights in the shape of a known one",
    "bench": "measure prefill and decode against the memory's speed",
    "profile": "show where the time of a token goes, on every node, and what would be faster",
    "drift": "compare the answers of several node counts, threads and encodings, bit for bit",
}

ABSENT = {  # what users may look for, by its names elsewhere -> what it is, what there is instead
    **dict.fromkeys(("api", "serve", "server"), ("no HTTP server", "programs talk to `chat --json-lines`")),
    "batch": ("no batch mode", "inference and chat answer one at a time"),
}

OUTSIDE = ("drift",)  # they start jobs and are none themselves
ALONE = ("tokenize", "inspect", "plan", "convert", "synth")  # one process does it, however many a launcher started

_SHOWN = (["-h"], ["--help"], ["--version"])
OVERVIEW = f"""usage: {PROGRAM} [MODE] [options]          alone, or under mpirun -np N; --version

modes (inference if none is given; each has --help):
"""


def main(argv: list[str] | None = None) -> int:
    """Runs a mode; its exit code: 0 done, 2 wrong usage or unusable input, 3 the cluster failed."""
    arguments = sys.argv[1:] if argv is None else argv
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without emoji gets them spelled out
    rank = launched_rank(os.environ) or 0
    try:
        with machine_explained():
            code = _show(arguments[0], rank) if arguments[:1] in _SHOWN else _run(*_split(arguments))
            print(end="", flush=True)
        return code
    except AgreedFailure as failure:
        return _explain(failure.error)
    except ClusterError as error:  # maybe of this host alone; if not, the root has ended the job before it is told
        time.sleep(PATIENCE_S if rank else 0)
        return _explain(error, f"rank {rank} on {os.uname().nodename}: " if rank else "")
    except DllamaError as error:  # of the command line, which all ranks share
        return error.exit_code if rank else _explain(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the exit would try once more to write
        return OUTPUT_CLOSED


def _show(option: str, rank: int) -> int:
    """The modes, or the version."""
    modes = OVERVIEW + "\n".join(f"  {mode:<11}{what}" for mode, what in MODES.items())
    if rank == 0:
        print(f"dllama-py {importlib.metadata.version('dllama-py')}" if option == "--version" else modes)
    return 0


def _split(arguments: list[str]) -> tuple[str, list[str]]:
    """The mode and its options; without a mode it is inference."""
    if arguments and not arguments[0].startswith("-"):
        return arguments[0], arguments[1:]
    return "inference", arguments


def _run(mode: str, arguments: list[str]) -> int:
    parser = Parser(prog=f"{PROGRAM} {mode}", description=MODES.get(mode))
    if asks_for_workers(mode, arguments):
        raise UsageError(equivalent(mode, arguments))
    if mode in ABSENT:
        what, instead = ABSENT[mode]
        raise UsageError(f"{what} in this version; {instead} ({PROGRAM} --help lists the modes)")
    if mode not in MODES:
        raise UsageError(
            f"no mode {mode!r}; the modes are {', '.join(MODES)}{did_you_mean(mode, MODES)} ({PROGRAM} --help)"
        )
    module = importlib.import_module(f"dllama_py.cli.{mode}")
    module.add_options(parser)
    parsed = parser.parse_args(arguments)
    if mode in ALONE and launched_rank(os.environ) not in (None, 0):
        return 0
    code: int = module.run(parsed)
    return code


def _explain(error: DllamaError, where: str = "") -> int:
    print(f"error: {where}{with_row(error)}", file=sys.stderr)
    return error.exit_code
