"""A local network of several hosts on one machine: each is a set of Linux namespaces with a host name, an address and a
link of limited rate to a switch.

Nothing of it has a name outside: bridge, interfaces and addresses exist in namespaces only, so two networks at a time
do not clash. The first process of each host reads from a pipe of this one and takes all others along when it ends; so
nothing is left, whatever happens. Needs root, iproute2, and a kernel with network namespaces and the tbf qdisc.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

LAUNCHER = Path(__file__).with_name("launcher")
MPIRUN = Path(sys.executable).with_name("mpirun")
NAMESPACES = ("--net", "--uts", "--mount", "--ipc")  # no two hosts share memory
# What passes at once after a pause: little at the sender, so that the single messages of a token are held up too and
# not only a steady stream; more where the switch sends on, since two small ones in a row halved the rate.
HOST_BURST_S, PORT_BURST_S = 64e-6, 512e-6
FRAME_BYTES = 1600
UNITS = {"gbit": 1e9, "mbit": 1e6}
LIVE = """
hostname "$1" && mount -t sysfs sysfs /sys && ip link set lo up && echo ready && read -r end
own=$(readlink /proc/$$/ns/net)
for each in /proc/[0-9]*; do
  if [ "${each#/proc/}" != $$ ] && [ "$(readlink $each/ns/net)" = "$own" ]; then kill -9 "${each#/proc/}"; fi
done
"""
OVER_TCP = {"UCX_TLS": "tcp,self"}  # processes of one kernel would talk through its memory


def hindrance() -> str | None:
    """Why this machine cannot have such a network; None if it can."""
    if os.geteuid() != 0:
        return "making hosts of network namespaces takes root"
    missing = [tool for tool in ("ip", "tc", "nsenter", "unshare") if shutil.which(tool) is None]
    if missing:
        return f"{missing[0]} is missing (iproute2 and util-linux have what is needed)"
    try:
        with lan(2):
            return None
    except OSError as error:
        return str(error)


@dataclass(frozen=True, slots=True)
class Host:
    """`process`: the first of the host."""

    name: str
    address: str
    process: int

    def command(self, *words: str | Path) -> list[str]:
        """What runs these words on the host, in the present folder."""
        here = f"--wdns={os.getcwd()}"
        return ["nsenter", "--target", str(self.process), *NAMESPACES, here, *map(str, words)]

    def run(self, *words: str | Path) -> str:
        """-> what they print. OSError if they fail."""
        return _run(self.command(*words))

    @property
    def sent_bytes(self) -> int:
        """That left the host over its link so far, headers of all layers included."""
        (queue,) = json.loads(self.run("tc", "-s", "-j", "qdisc", "show", "dev", "eth0"))
        return int(queue["bytes"])

    def cut(self) -> None:
        """Pulls the cable."""
        self.run("ip", "link", "set", "eth0", "down")

    def mend(self) -> None:
        """Plugs it in again."""
        self.run("ip", "link", "set", "eth0", "up")

    def processes(self) -> list[int]:
        """Process ids of all that runs on the host."""
        here = _network_of(self.process)
        everyone = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
        return [pid for pid in everyone if pid != self.process and _network_of(pid) == here]


@dataclass(frozen=True, slots=True)
class Lan:
    """Hosts node1, node2, ... at 10.99.0.1, 10.99.0.2, ..., and the switch between them. For the program each is a
    machine of its own, unless the environment has a DLLAMA_HOST_ID for all."""

    hosts: tuple[Host, ...]
    switch: Host
    rate: str

    def mpirun(self, *words: str | Path, n_ranks: int | None = None) -> list[str]:
        """The command that starts one rank of these words on each host (or on the first `n_ranks`) from the first."""
        hosts = self.hosts[:n_ranks]
        addresses = ",".join(host.address for host in hosts)
        network = ["-iface", "eth0", "-launcher", "ssh", "-launcher-exec", str(LAUNCHER)]
        return self.hosts[0].command(MPIRUN, *network, "-hosts", addresses, "-np", str(len(hosts)), *words)

    def environment(self, settings: Mapping[str, str] = OVER_TCP) -> dict[str, str]:
        """For that command: this process's with these settings."""
        hosts = " ".join(f"{host.address}={host.process}" for host in self.hosts)
        return {**os.environ, **settings, "LAN_HOSTS": hosts}

    def set_rate(self, rate: str) -> "Lan":
        """Every link shaped to this rate in both directions, as tc writes it (1gbit, 100mbit)."""
        for number, host in enumerate(self.hosts, 1):
            _shape(host, "eth0", rate, HOST_BURST_S)
            _shape(self.switch, f"port{number}", rate, PORT_BURST_S)
        return Lan(self.hosts, self.switch, rate)


@contextmanager
def lan(n_hosts: int, rate: str = "1gbit", called: str = "node{}") -> Iterator[Lan]:
    """A network of so many hosts. OSError says what the machine refuses."""
    with ExitStack() as stack:
        switch = stack.enter_context(_host("switch", ""))
        switch.run("ip", "link", "add", "name", "bridge", "type", "bridge")
        switch.run("ip", "link", "set", "bridge", "up")
        hosts = [stack.enter_context(_host(called.format(i), f"10.99.0.{i}")) for i in range(1, n_hosts + 1)]
        for number, host in enumerate(hosts, 1):
            _connect(host, switch, f"port{number}")
        yield Lan(tuple(hosts), switch, rate).set_rate(rate)


@contextmanager
def _host(name: str, address: str) -> Iterator[Host]:
    command = ["unshare", *NAMESPACES, "sh", "-c", LIVE, "sh", name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin and process.stdout and process.stderr
        if process.stdout.readline() != b"ready\n":
            raise OSError(f"no namespace for {name}: {process.stderr.read().decode().strip()}")
        try:
            yield Host(name, address, process.pid)
        finally:
            process.stdin.close()


def _connect(host: Host, switch: Host, port: str) -> None:
    """A cable between the host's eth0 and a port of the switch."""
    peer = ["peer", "name", "eth0", "netns", str(host.process)]
    switch.run("ip", "link", "add", "name", port, "type", "veth", *peer)
    switch.run("ip", "link", "set", port, "master", "bridge", "up")
    host.run("ip", "addr", "add", f"{host.address}/24", "dev", "eth0")
    host.run("ip", "link", "set", "eth0", "up")


def bits_per_s(rate: str) -> float:
    """Of a rate as tc writes it: 1gbit, 100mbit."""
    return next(float(rate.removesuffix(unit)) * factor for unit, factor in UNITS.items() if rate.endswith(unit))


def burst_bytes(rate: str, seconds: float = HOST_BURST_S) -> int:
    """That pass at once after a pause."""
    return max(int(bits_per_s(rate) / 8 * seconds), FRAME_BYTES)


def _shape(host: Host, device: str, rate: str, burst_s: float) -> None:
    shaping = ["tbf", "rate", rate, "burst", str(burst_bytes(rate, burst_s)), "latency", "50ms"]
    host.run("tc", "qdisc", "replace", "dev", device, "root", *shaping)


def _network_of(process: int) -> str:
    """What tells its network namespace from others; '' if it is gone."""
    try:
        return os.readlink(f"/proc/{process}/ns/net")
    except OSError:
        return ""


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
