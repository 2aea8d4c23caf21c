"""Several computers hold one language model together and answer as one machine."""

__version__ = "0.1.0"
