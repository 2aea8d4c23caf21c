"""Numbers of bytes as people read them."""


def size(n_bytes: int) -> str:
    """Bytes in the unit that suits them, decimal: 957833216 -> 957.8 MB."""
    value, unit = float(n_bytes), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def megabytes(n_bytes: int) -> str:
    """For a column whose heading names the unit: 957833216 -> 957.8."""
    return f"{n_bytes / 1e6:.1f}"
