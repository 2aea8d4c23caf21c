"""What a machine says of itself over ssh before a job is started: `python -m dllama_py.cluster.host_report`."""

import json
import os
import sys
from pathlib import Path

from dllama_py.transport.versions import own_versions

PROXY = "hydra_pmi_proxy"  # what the launcher starts on each machine


def own_report() -> dict[str, str]:
    """Versions of what computes, and whether the launcher finds its other half beside this Python."""
    proxy = Path(sys.executable).with_name(PROXY)
    return {**own_versions(), "MPI": "found" if os.access(proxy, os.X_OK) else "missing"}


if __name__ == "__main__":
    print(json.dumps(own_report()))
