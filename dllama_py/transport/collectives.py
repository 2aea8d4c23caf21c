"""What all ranks do at once, of the messages of a Comm."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from dllama_py.transport.comm import Comm

MOST_BYTES = 16384  # of a rank's fields as JSON, two paths among them


def gather_json(comm: Comm, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every rank's fields at the root, nothing elsewhere; also a moment from which all have come so far."""
    own = np.frombuffer(json.dumps(fields).encode().ljust(MOST_BYTES), np.uint8)
    parts = [np.zeros(MOST_BYTES, np.uint8) for _ in range(comm.size)] if comm.rank == 0 else None
    comm.gather(own, parts)
    return [json.loads(part.tobytes()) for part in parts or []]
