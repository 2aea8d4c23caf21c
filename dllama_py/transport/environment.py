"""What MPI launchers leave in the environment of each process. Imports next to nothing: the watcher reads it too."""

from collections.abc import Mapping

RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK")
SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "MV2_COMM_WORLD_SIZE")


def launched_rank(environment: Mapping[str, str]) -> int | None:
    """The rank that a launcher gave to this process; None if no launcher started it."""
    return _first_number(environment, RANKS)


def launched_size(environment: Mapping[str, str]) -> int | None:
    """How many ranks the launcher started; None if no launcher did, or it does not say."""
    return _first_number(environment, SIZES)


def _first_number(environment: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        if environment.get(name, "").isdecimal():
            return int(environment[name])
    return None
