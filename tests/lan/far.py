"""Hosts of a test network that are far apart: every packet between them arrives so many milliseconds late.

The kernels at hand cannot delay packets, so a process does: each host's eth0 is a TUN device that it holds.
"""

import ctypes
import fcntl
import heapq
import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.lan.hosts import Lan

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
PACKET_BYTES = 32000
DESTINATION = slice(16, 20)  # of an IPv4 header


@contextmanager
def far_apart(lan: Lan, delay_s: float) -> Iterator[Lan]:
    """The same hosts, with such links instead of the shaped ones."""
    for host in lan.hosts:
        host.run("ip", "link", "del", "eth0")
    hosts = [f"{host.address}={host.process}" for host in lan.hosts]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.lan.far", str(delay_s), *hosts], stdout=subprocess.PIPE
    ) as relay:
        assert relay.stdout is not None
        relay.stdout.readline()
        for host in lan.hosts:
            host.run("ip", "addr", "add", f"{host.address}/24", "dev", "eth0")
            host.run("ip", "link", "set", "eth0", "mtu", str(PACKET_BYTES), "up")
        yield lan
        relay.kill()


def main() -> None:
    """Delivers packets until it is killed."""
    delay_s, devices = float(sys.argv[1]), {}
    for word in sys.argv[2:]:
        address, process = word.split("=")
        devices[bytes(map(int, address.split(".")))] = _device(int(process))
    print("ready", flush=True)
    poll = select.poll()
    for device in devices.values():
        poll.register(device, select.POLLIN)
    due: list[tuple[float, int, bytes]] = []
    n_read = 0
    while True:
        wait_s = max(due[0][0] - time.monotonic(), 0.0) if due else 1.0
        for device, _ in poll.poll(1000 * wait_s):
            packet = os.read(device, PACKET_BYTES)
            n_read += 1
            if packet[DESTINATION] in devices:
                heapq.heappush(due, (time.monotonic() + delay_s, n_read, packet))
        while due and due[0][0] <= time.monotonic():
            _, _, packet = heapq.heappop(due)
            os.write(devices[packet[DESTINATION]], packet)


def _device(process: int) -> int:
    """An eth0 in the network namespace of a process."""
    namespace = os.open(f"/proc/{process}/ns/net", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(namespace, 0):
        raise OSError(ctypes.get_errno(), "no way into a namespace")
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"eth0", IFF_TUN | IFF_NO_PI))
    return device


if __name__ == "__main__":
    main()
