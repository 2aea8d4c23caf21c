# python -m pytest tests/test_docs.py
"""The pages: links lead somewhere, lists are whole, options and variables that they name exist."""

import re
from pathlib import Path

import pytest

from dllama_py.cli import MODES

ROOT = Path(__file__).parents[1]
NOT_OURS = {
    "error parsing hostfile",
    "No such file or directory",
    "Launch proxy failed",
    "token slots not supported at this time",
    "command not found",
    "Host key verification failed",
    "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OURS = re.compile(r"(?:dllama_py|launch\.py|dllama|converter)\b[^`\n]*")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


def test_every_mode_and_decision_is_listed() -> None:
    readme, decisions = (ROOT / "README.md").read_text(), ROOT / "docs" / "decisions"
    assert set(re.findall(r"^\| `([a-z]+)` \|", readme, re.MULTILINE)) == set(MODES)
    index = (decisions / "README.md").read_text()
    assert [page.name for page in decisions.glob("0*.md") if f"({page.name})" not in index] == []
    numbers = [page.name[:4] for page in decisions.glob("0*.md")]
    assert len(set(numbers)) == len(numbers), sorted(numbers)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_in_commands_exist(page: Path) -> None:
    known = (ROOT / "docs" / "cli.md").read_text()
    commands = OURS.findall(page.read_text())
    named = {option for command in commands for option in re.findall(r"(?<!-)--[a-z][a-z-]+", command)}
    assert {option for option in named if f"{option} " not in known and f"{option}`" not in known} <= {"--help"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_variables_exist(page: Path) -> None:
    sources = "".join(path.read_text() for path in (ROOT / "dllama_py").rglob("*.py"))
    sources += (ROOT / "Makefile").read_text()
    assert [name for name in re.findall(r"DLLAMA_[A-Z_]+", page.read_text()) if name not in sources] == []


def test_messages_are_those_of_the_program() -> None:
    """What stands in the first column of troubleshooting.md is found in the sources, but for names and numbers."""
    sources = "".join(path.read_text() for path in (ROOT / "dllama_py").rglob("*.py"))
    sources = re.sub(r'"\s*\n\s*f?"', "", sources)  # texts in several pieces
    rows = re.findall(r"^\| (.*?) \| ", (ROOT / "docs" / "troubleshooting.md").read_text(), re.MULTILINE)
    messages = [message for row in rows for message in re.findall(r"`([^`]+)`", row)]
    parts = [
        part for message in messages for part in re.split(r"\.\.\.|[0-9.]+|GB|HOST|[;,:]|\bN\b|\bK\b|\(SIG.*", message)
    ]
    assert len(messages) > 30
    assert {part.strip() for part in parts if len(part) > 11 and part.strip(" ()'") not in sources} <= NOT_OURS
