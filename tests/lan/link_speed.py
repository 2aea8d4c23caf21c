"""Run on every host: the network as transport/link.py finds it, as one JSON line of the root."""

import json
from dataclasses import asdict

from dllama_py.transport.link import measure_network
from dllama_py.transport.world import joined_world

if __name__ == "__main__":
    with joined_world() as comm:
        network = measure_network(comm)
        if comm.rank == 0:
            print(json.dumps(asdict(network)), flush=True)
