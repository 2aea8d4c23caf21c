"""Which network interface the ranks talk over: by name, where all machines call it alike, or by the subnet it is in.

A subnet has to be looked up on each machine, so this file is also a program: `python -m dllama_py.cluster.network
SUBNET ARGUMENTS` finds the interface and becomes `python -m dllama_py ARGUMENTS`.
"""

import fcntl
import ipaddress
import os
import socket
import struct
import sys
from dataclasses import dataclass

from dllama_py.errors import UsageError
from dllama_py.troubleshooting import with_row

ASK_ADDRESS = 0x8915  # SIOCGIFADDR of Linux


@dataclass(frozen=True, slots=True)
class Network:
    """`interface` of this machine; `subnet` if it was asked for by that, and `address` of this machine in it."""

    interface: str
    subnet: str | None = None
    address: str | None = None


def find_network(text: str) -> Network:
    """NAME or SUBNET (192.168.1.0/24) as an interface of this machine. UsageError lists those there are."""
    names = [name for _, name in socket.if_nameindex()]
    if text in names:
        return Network(text)
    try:
        subnet = ipaddress.IPv4Network(text, strict=False)
    except ValueError:
        raise UsageError(
            f"no interface {text!r} on this machine; it has {', '.join(names)}; or give a subnet, as 192.168.1.0/24"
        ) from None
    addresses = {name: _address(name) for name in names}
    for name, address in addresses.items():
        if address is not None and address in subnet:
            return Network(name, str(subnet), str(address))
    known = ", ".join(f"{name} {address}" for name, address in addresses.items() if address)
    raise UsageError(f"no interface of {socket.gethostname()} is in {subnet}; it has {known}")


def rank_environment(interface: str) -> dict[str, str]:
    """What makes MPICH's two network layers, UCX and libfabric, use this interface alone."""
    return {"UCX_NET_DEVICES": interface, "FI_TCP_IFACE": interface}


def _address(interface: str) -> ipaddress.IPv4Address | None:
    """The first IPv4 address of an interface of this machine; None if it has none, or the system does not say."""
    request = struct.pack("256s", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            answer = fcntl.ioctl(any_socket.fileno(), ASK_ADDRESS, request)
        except OSError:
            return None
    return ipaddress.IPv4Address(answer[20:24])


def main() -> int:
    """Become the rank, with the interface of this machine in the environment; exit code 2 if there is none."""
    try:
        network = find_network(sys.argv[1])
    except UsageError as error:
        sys.stderr.write(f"error: {with_row(error)}\n")
        return error.exit_code
    command = [sys.executable, "-m", "dllama_py", *sys.argv[2:]]
    os.execve(sys.executable, command, {**os.environ, **rank_environment(network.interface)})


if __name__ == "__main__":
    sys.exit(main())
