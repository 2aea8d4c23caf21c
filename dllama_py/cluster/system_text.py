"""Small texts in which the kernel tells of the machine: /proc, /sys."""

from pathlib import Path


def system_text(path: Path) -> str:
    """Without white space around it; empty where there is no such file on this system."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
