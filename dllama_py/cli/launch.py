"""What launch.py does: list the known models, fetch one, write the script that starts it, and start it if wanted.

Not a mode: it runs outside the job, and nothing else opens a connection to the world.
"""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from dllama_py.cli.listing import fetched_listing, listing
from dllama_py.cli.options import Parser, positive
from dllama_py.cli.progress import shown_progress
from dllama_py.cli.starting import check_hosts, has_terminal, start, start_in_place
from dllama_py.cluster import catalogue, fetch, registry
from dllama_py.cluster.hostfile import Host, hosts_beyond, ranks_offered, ranks_to_start, read_hostfile, refuse_too_many
from dllama_py.cluster.job import Placement, job_command, write_script
from dllama_py.cluster.network import find_network
from dllama_py.cluster.remote import Repositories, chosen_endpoint
from dllama_py.errors import DllamaError, UsageError, machine_explained
from dllama_py.formats.mapped import MappedFile
from dllama_py.formats.strangers import refuse_stranger_shard
from dllama_py.settings import AUTO, PIPELINE, TENSOR, TOPOLOGIES
from dllama_py.sizes import size
from dllama_py.transport.failure import INTERRUPTED, OUTPUT_CLOSED
from dllama_py.troubleshooting import with_row

LIST, REMOVE = "list", "remove"  # in place of a model's name
START = "start"  # in scripts, before the command of a job

EPILOG = """examples:
  python launch.py                                  list the known models
  python launch.py qwen3_0.6b_q40 --np 4            fetch one, offer to start it as 4 ranks of this machine
  python launch.py qwen3_8b_q40 --hostfile hostfile --iface 192.168.1.0/24 -y
  python launch.py Qwen/Qwen3-0.6B-GGUF:Q8_0        the GGUF file with Q8_0 in its name
  python launch.py Qwen/Qwen3-0.6B --skip-run       a folder of config, tokenizer and safetensors

HF_ENDPOINT names another hub, HF_TOKEN opens what is not public. An interrupted download goes on where it was."""


def main(arguments: Sequence[str], home: Path) -> int:
    """Carry out one command line; models go to home/models, scripts to home. -> the exit code."""
    try:
        with machine_explained():
            if arguments[:1] == [START]:
                return start_in_place(arguments[1:])
            code = _launch(_parser().parse_args(arguments), home)
            print(end="", flush=True)
        return code
    except DllamaError as error:
        print(f"error: {with_row(error)}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\ninterrupted; what has come is kept, the same command goes on from there", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the exit would try once more to write
        return OUTPUT_CLOSED


def _launch(options: argparse.Namespace, home: Path) -> int:
    if options.model is None:
        print(listing(home / "models"))
        return 0
    if options.model == LIST:
        print(fetched_listing())
        return 0
    if (options.model == REMOVE) is (options.name is None):
        raise UsageError("one name of a model was expected: launch.py NAME, or launch.py remove NAME (--help)")
    if options.model == REMOVE:
        return _remove(options.name, home)
    known = catalogue.known(options.model)
    topology = _topology(options, known)
    placement = _placement(options, topology)  # refused, if it is, before anything is fetched
    fetched = _fetch(options.model, home / "models")
    known = catalogue.known(options.model)
    print(f"{known.title if known else fetched.name}: {fetched.model}")
    if fetched.model.is_file():
        refuse_stranger_shard(MappedFile(fetched.model))
    _remember(fetched, options.model)
    is_for_chat = known is None or known.is_for_chat
    command = job_command(placement, [*_arguments(is_for_chat, fetched), *_topology_words(options, topology)])
    script = _script(fetched.name, home)
    ranks = f"{placement.n_ranks} rank{'s' * (placement.n_ranks > 1)}"
    write_script(
        script,
        [sys.executable, str(home / "launch.py"), START, *command],
        f"{'a chat with' if is_for_chat else 'text from'} {fetched.name} on {ranks}",
    )
    print(f"written: {script}")
    if options.skip_run or not (options.yes or _agreed(ranks)):
        return 0
    check_hosts(placement.hostfile, placement.n_ranks)
    return start(command)


def _parser() -> Parser:
    parser = Parser(prog="launch.py", description="Fetch a model and start it.", epilog=EPILOG)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a known name, or OWNER/REPO[:FILE]; `list`: what is here; `remove NAME`; none: what there is",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="after `remove`")
    parser.add_argument("-y", "--yes", action="store_true", help="start it without asking")
    parser.add_argument("--skip-run", "-skip-run", action="store_true", help="neither ask nor start")
    group = parser.add_argument_group("where it runs")
    group.add_argument(
        "--np", "--nodes", type=positive, metavar="N", help="ranks (default: as the hostfile offers, else 1)"
    )
    group.add_argument("--hostfile", type=Path, metavar="FILE", help="the machines; the sample explains itself")
    group.add_argument("--iface", metavar="NAME|SUBNET", help="interface that the ranks use, as eth0 or 192.168.1.0/24")
    group.add_argument("--port-range", type=_ports, metavar="A:B", help="TCP ports that launcher and ranks listen on")
    group.add_argument("--nice", type=_niceness, default=0, metavar="N", help="priority, 19 is the lowest (default: 0)")
    group.add_argument(
        "--topology",
        choices=TOPOLOGIES,
        help="who has what of the model, as in all modes (default: auto with a hostfile, else tensor)",
    )
    group.add_argument("--stages", type=positive, metavar="N", help="of a pipeline, as in all modes")
    group.add_argument("--split", metavar="HOW", help="layers of each stage of a pipeline, as in all modes")
    return parser


def _topology(options: argparse.Namespace, known: catalogue.KnownModel | None) -> str:
    """As asked for; else what the model needs; else, of several machines, whatever will be the fastest."""
    if options.stages or options.split:
        if options.topology not in (None, PIPELINE):
            raise UsageError(f"--stages and --split are for pipelines; leave --topology {options.topology} out")
        return PIPELINE
    if options.topology is not None:
        return str(options.topology)
    if known is not None and known.is_for_pipeline:
        return PIPELINE
    return TENSOR if options.hostfile is None else AUTO


def _placement(options: argparse.Namespace, topology: str) -> Placement:
    hosts = None if options.hostfile is None else read_hostfile(options.hostfile)
    if hosts is not None and options.np is not None:
        refuse_too_many(options.np, hosts, options.hostfile)
    n_ranks = options.np or (1 if hosts is None else _ranks(hosts, options.hostfile, topology))
    network = None if options.iface is None else find_network(options.iface)
    return Placement(n_ranks, options.hostfile, network, options.port_range, options.nice)


def _ranks(hosts: Sequence[Host], hostfile: Path, topology: str) -> int:
    """All that the machines offer, where any number will do; else who is left out is told."""
    if topology != TENSOR:
        return ranks_offered(hosts)
    n_ranks = ranks_to_start(hosts)
    if n_ranks < ranks_offered(hosts):
        beyond = ", ".join(host.name for host in hosts_beyond(hosts, n_ranks))
        print(
            f"{hostfile} offers {ranks_offered(hosts)} ranks, of which --topology tensor takes {n_ranks} (1, 2, 4, 8, "
            f"...); idle on {beyond}; --topology auto, or pipeline, takes any number"
        )
    return n_ranks


def _fetch(name: str, models_folder: Path) -> fetch.Fetched:
    known = catalogue.known(name)
    if known is None and "/" not in name:
        return _fetched_before(name)
    hub = _hub()
    with shown_progress() as progress:
        if known is not None:
            return fetch.fetch_known(known, models_folder, hub, progress)
        return fetch.fetch_repository(name, models_folder, hub, progress)


def _hub() -> Repositories:
    endpoint = chosen_endpoint()
    try:
        with redirect_stdout(None):  # where its library would tell its own failure
            from dllama_py.cluster.hub import Hub  # takes a while to import; a wrong name need not wait for it
    except ValueError as error:  # the library reads the environment when it is imported
        names = [name for name, value in os.environ.items() if name.startswith("HF_") and repr(value) in str(error)]
        raise UsageError(f"{names[0] if names else 'a variable HF_...'} is no number ({error}); unset it") from None
    return Hub(endpoint)


def _fetched_before(name: str) -> fetch.Fetched:
    """A model of a hub that is here, by its own name. UsageError lists the catalogue if there is none."""
    found = registry.named(registry.registered_models(), name)
    if len(found) != 1:
        raise catalogue.unknown(name)
    return fetch.Fetched(found[0].name, found[0].path, None, found[0].folder, found[0].files)


def _remove(name: str, home: Path) -> int:
    models = registry.registered_models()
    found = registry.named(models, name)
    if not found:
        raise UsageError(f"{name}: no fetched model has that name; python launch.py list shows those that are here")
    if len(found) > 1:
        raise UsageError(registry.several(name, found))
    n_bytes = fetch.remove(found[0].folder, found[0].files)
    registry.forget(found[0])
    _script(found[0].name, home).unlink(missing_ok=True)
    print(f"{found[0].name} removed, {size(n_bytes)} freed")
    return 0


def _script(name: str, home: Path) -> Path:
    return home / f"run_{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.sh"


def _remember(fetched: fetch.Fetched, source: str) -> None:
    """Its name works from now on, and runs without --model take it."""
    before = registry.last_model()
    try:
        model = registry.RegisteredModel(fetched.name, source, fetched.model, fetched.folder, fetched.files)
        registry.remember(model)
        if before is not None and before != fetched.model.absolute():
            print(f"{fetched.name} is the default model now, instead of {before.name}")
    except OSError as error:
        print(
            f"note: not noted as the last model ({error.filename}: {error.strerror}); DLLAMA_HOME sets another folder"
        )


def _arguments(is_for_chat: bool, fetched: fetch.Fetched) -> list[str]:
    tokenizer = [] if fetched.tokenizer is None else ["--tokenizer", str(fetched.tokenizer)]
    return ["chat" if is_for_chat else "inference", "--model", str(fetched.model), *tokenizer]


def _topology_words(options: argparse.Namespace, topology: str) -> list[str]:
    """Options of the job."""
    stages = ["--stages", str(options.stages)] if options.stages else []
    split = ["--split", options.split] if options.split else []
    return [*([] if topology == TENSOR else ["--topology", topology]), *stages, *split]


def _agreed(ranks: str) -> bool:
    """What the user answers; without a terminal there is no question, and the answer is no."""
    if not has_terminal():
        return False
    try:
        return input(f"Start it now on {ranks}? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _ports(text: str) -> tuple[int, int]:
    first, _, last = text.partition(":")
    if first.isdecimal() and last.isdecimal() and 1024 <= int(first) < int(last) <= 65535:
        return int(first), int(last)
    raise argparse.ArgumentTypeError(f"{text!r} is no range of ports; expected A:B with 1024 <= A < B <= 65535")


def _niceness(text: str) -> int:
    if re.fullmatch(r"-?\d{1,2}", text) and -20 <= int(text) <= 19:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no priority; expected -20 to 19, 19 is the lowest")
