"""What launch.py does: list the known models, fetch one, start the ranks on it."""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from dllama_py.cluster import catalogue, registry
from dllama_py.errors import ClusterError, DllamaError, UsageError

DEFAULT_RANKS = 4
PASSED_ON = {0, 2, 130}  # done, wrong usage, interrupted; any other code of mpirun means that the cluster failed


def launch(arguments: Sequence[str], models_folder: Path, say: Callable[[str], None]) -> int:
    """Carry out one command line of launch.py; `say` shows a line to the user. -> the exit code."""
    options = _parser().parse_args(arguments)
    if options.model is None:
        for line in _listing(models_folder):
            say(line)
        return 0
    try:
        if options.nodes < 1:
            raise UsageError(f"--nodes {options.nodes}: expected the number of ranks to start, at least 1")
        model = catalogue.find(options.model)
        path = catalogue.fetch(model, models_folder)
        registry.remember_last_model(path)
        say(f"{model.title}: {path}")
        return 0 if options.skip_run else run_ranks(options.nodes)
    except DllamaError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


def run_ranks(n_ranks: int, arguments: Sequence[str] = ()) -> int:
    """mpirun -np N python -m dllama_py ARGUMENTS, with the mpirun of this environment; -> 0, 2, 3 or 130."""
    scripts = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": os.pathsep.join([scripts, os.environ.get("PATH", os.defpath)])}
    mpirun = shutil.which("mpirun", path=environment["PATH"])
    if mpirun is None:
        raise ClusterError("no mpirun found; pip install mpich brings one into this environment")
    command = [mpirun, "-np", str(n_ranks), sys.executable, "-m", "dllama_py", *arguments]
    code = subprocess.run(command, env=environment, check=False).returncode
    return code if code in PASSED_ON else ClusterError.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="launch.py", description="Fetch a known model and start it on several ranks.")
    parser.add_argument("model", nargs="?", help="name of a known model; without it they are listed")
    parser.add_argument("--nodes", type=int, default=DEFAULT_RANKS, help="ranks to start (default: %(default)s)")
    parser.add_argument("--skip-run", action="store_true", help="fetch only")
    return parser


def _listing(models_folder: Path) -> list[str]:
    lines = ["Known models (python launch.py NAME fetches and starts one):"]
    for model in catalogue.CATALOGUE:
        here = "  fetched" if (models_folder / model.name / model.file_name).exists() else ""
        lines.append(f"  {model.name:24} {model.n_bytes / 1e9:7.2f} GB  {model.title}{here}")
    return lines
