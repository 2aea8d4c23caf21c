"""Writes docs/cli.md from the commands' own option parsers: python docs/write_cli.py [--check].

With --check nothing is written; exit code 1 if the page is not what the parsers say.
"""

import argparse
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

from dllama_py.cli import ALONE, MODES, OUTSIDE, launch
from dllama_py.cli.options import PROGRAM, Parser

PAGE = Path(__file__).with_name("cli.md")

HEAD = """# Commands

`python -m dllama_py [MODE] [options]`, or `dllama [MODE] [options]`; alone, or under `mpirun -np N`. Without a mode it
is `inference`. Every mode has `--help`, from which `make docs` writes this page.

Exit codes: 0 done, 2 the request or the input cannot work, 3 the cluster failed, 130 Ctrl-C. An error is one line on
standard error; [troubleshooting.md](troubleshooting.md) says more about each.

With `--json` a mode prints one JSON object as its last line on standard output, all else goes to standard error.

| mode | what it does | ranks |
| --- | --- | --- |
"""

VARIABLES = """
## Environment

| variable | what it does |
| --- | --- |
| `DLLAMA_HOME` | where compiled kernels and the name of the last model are kept; default `~/.cache/dllama-py` |
| `DLLAMA_PATIENCE_S` | seconds to wait for a rank without a sign of life, whatever it does (60; 0: for ever) |
| `DLLAMA_EXPECT_RANKS` | a run refuses to be anything but one world of this many ranks |
| `DLLAMA_HOST_ID` | any text that tells this machine from others, instead of its kernel's boot id |
"""


def page() -> str:
    modes = "".join(f"| [`{mode}`](#{mode}) | {what} | {_ranks(mode)} |\n" for mode, what in MODES.items())
    sections = "".join(_section(mode, _parser(mode), MODES[mode]) for mode in MODES)
    launching = _section("launch.py", launch._parser(), "fetch a model and start it on several ranks; outside mpirun")
    return f"{HEAD}{modes}{sections}{launching}{VARIABLES}"


def _ranks(mode: str) -> str:
    if mode in OUTSIDE:
        return "outside mpirun"
    return "one" if mode in ALONE else "1, 2, 4, 8, ..."


def _parser(mode: str) -> Parser:
    parser = Parser(prog=f"{PROGRAM} {mode}")
    importlib.import_module(f"dllama_py.cli.{mode}").add_options(parser)
    return parser


def _section(title: str, parser: argparse.ArgumentParser, what: str) -> str:
    lines = [f"\n## {title}\n", f"{what[0].upper()}{what[1:]}.\n"]
    lines += _options(parser)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                lines += [f"### {title} {name}\n", *_options(inner), *_epilog(inner)]
    return "\n".join([*lines, *_epilog(parser)])


def _options(parser: argparse.ArgumentParser) -> list[str]:
    rows = [row for action in parser._actions for row in _row(action)]
    return ["| option | what it does |", "| --- | --- |", *rows, ""] if rows else []


def _row(action: argparse.Action) -> Iterator[str]:
    if action.help in (None, argparse.SUPPRESS) or action.dest == "help":
        return
    value = "" if action.nargs == 0 else str(action.metavar or _choices(action) or action.dest.upper())
    names = ", ".join(action.option_strings)
    text = str(action.help).replace("%(default)s", str(action.default)).replace("%%", "%").replace("|", "\\|")
    written = " ".join(part for part in (names, value) if part).replace("|", "\\|")
    yield f"| `{written}` | {text} |"


def _choices(action: argparse.Action) -> str:
    return "|".join(map(str, action.choices)) if action.choices is not None else ""


def _epilog(parser: argparse.ArgumentParser) -> list[str]:
    return ["```text", parser.epilog, "```\n"] if parser.epilog else []


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_text() != text:
            print(f"{PAGE} is not what the commands say; run: make docs", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
