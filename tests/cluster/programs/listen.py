"""Each of two ranks exchanges a message with the other and prints the addresses it listens on, as ADDRESS:PORT."""

import os
import socket
import struct
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

LISTENING = "0A"


def main() -> None:
    comm = MPI.COMM_WORLD
    got = np.zeros(1)
    comm.Sendrecv(np.ones(1), dest=comm.rank ^ 1, recvbuf=got, source=comm.rank ^ 1)
    links = [os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink() and path.exists()]
    mine = {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}
    lines = []
    for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[9] in mine and fields[3] == LISTENING:
            address, port = fields[1].split(":")
            lines.append(f"{socket.inet_ntoa(struct.pack('<I', int(address, 16)))}:{int(port, 16)}\n")
    sys.stdout.write("".join(lines))


main()
