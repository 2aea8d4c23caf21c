"""The way of a broadcast: a binomial tree, each of whose ranks passes on what it has got."""

from functools import cache


@cache
def parent_of(rank: int, root: int, size: int) -> int | None:
    """From whom a rank gets it; None for the root."""
    place = (rank - root) % size
    return (rank - (place & -place)) % size if place else None


@cache
def children_of(rank: int, root: int, size: int) -> tuple[int, ...]:
    """To whom a rank passes it on, the one with most to do first."""
    place = (rank - root) % size
    reach = place & -place or 1 << (size - 1).bit_length()
    steps = [reach >> level for level in range(1, reach.bit_length())]
    return tuple((rank + step) % size for step in steps if place + step < size)
