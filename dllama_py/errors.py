"""What can go wrong, by whose fault it is; the exit code of the program follows from the class.

    DllamaError
    ├── UsageError    2   the command line or a setting cannot work
    ├── InputError    2   a file is not what it should be
    └── ClusterError  3   a node, a link or the environment failed

A message says what was found, what was expected and what to do, in one line.
"""


class DllamaError(Exception):
    """Any failure that is explained to the user in one line, without a traceback."""

    exit_code = 1


class UsageError(DllamaError):
    """The request cannot be carried out as given; nothing was read or written."""

    exit_code = 2


class InputError(DllamaError):
    """A file is damaged, unsupported or inconsistent."""

    exit_code = 2


class ClusterError(DllamaError):
    """A node died, does not answer, or does not match the others."""

    exit_code = 3
