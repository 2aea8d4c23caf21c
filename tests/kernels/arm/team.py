"""A team on an emulated ARM CPU: runs programs as kernels.team.Team does, in a process under qemu (runner.c).

What the arguments of a program point to is sent there and back. Addresses within are moved with it: arguments, and
words of int64 arrays that point into one of the arguments.
"""

import ctypes
import json
import subprocess
import sys
from bisect import bisect
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dllama_py.kernels.program import Instruction, Program

RUNNER = Path(__file__).with_name("runner.c")
ZIG = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-none", "-ffreestanding", "-nostdlib", "-O1"]


def link(folder: Path) -> Path:
    """The program of runner.c and the kernels.o in that folder."""
    program = folder / "runner"
    caches = {"ZIG_GLOBAL_CACHE_DIR": str(folder), "ZIG_LOCAL_CACHE_DIR": str(folder)}
    subprocess.run([*ZIG, RUNNER, folder / "kernels.o", "-o", program], check=True, timeout=60, env=caches)
    return program


class Image:
    """Copies of arrays, for a memory that begins at `base` elsewhere. Arrays that overlap do so there."""

    def __init__(self, arrays: Sequence[NDArray[np.generic]], base: int) -> None:
        self._base = base
        self._starts, self._ends, self._offsets = merged([np.lib.array_utils.byte_bounds(a) for a in arrays])
        pieces = zip(self._starts, self._ends, strict=True)
        self.bytes = bytearray(b"".join(ctypes.string_at(start, end - start) for start, end in pieces))
        self._pointers = [p for a in arrays if a.dtype == np.int64 for p in self._pointers_in(a)]
        for offset, address in self._pointers:
            self._write(offset, self.moved(address))

    def moved(self, address: int) -> int:
        """Where the byte at an address of this process lies there."""
        number = bisect(self._starts, address) - 1
        return self._base + self._offsets[number] + address - self._starts[number]

    def give_back(self, changed: bytes) -> None:
        """What the other side made of the bytes goes into the arrays; the addresses among them stay as they were."""
        self.bytes[:] = changed
        for offset, address in self._pointers:
            self._write(offset, address)
        for start, end, offset in zip(self._starts, self._ends, self._offsets, strict=True):
            ctypes.memmove(start, bytes(self.bytes[offset : offset + end - start]), end - start)

    def _pointers_in(self, array: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Words of an array that are addresses within the image: their offset in it, and what they say."""
        found = []
        for number, word in enumerate(array.reshape(-1).tolist()):
            piece = bisect(self._starts, word) - 1
            if piece >= 0 and word < self._ends[piece]:
                found.append((self.moved(array.ctypes.data + 8 * number) - self._base, word))
        return found

    def _write(self, offset: int, word: int) -> None:
        self.bytes[offset : offset + 8] = word.to_bytes(8, "little")


def merged(bounds: Sequence[tuple[int, int]]) -> tuple[list[int], list[int], list[int]]:
    """Ranges of addresses, those that overlap made one: starts, ends, and offsets when laid one behind the other."""
    starts: list[int] = []
    ends: list[int] = []
    for low, high in sorted(bounds):
        if ends and low <= ends[-1]:
            ends[-1] = max(ends[-1], high)
        else:
            starts, ends = [*starts, low], [*ends, high]
    sizes = np.subtract(ends, starts)
    return starts, ends, (np.cumsum(sizes) - sizes).tolist()


class EmulatedTeam:
    """Of `n_threads` threads, which work one after the other."""

    def __init__(self, emulator: Sequence[str], folder: Path, n_threads: int) -> None:
        self.n_threads = n_threads
        self._kernels = json.loads((folder / "kernels.json").read_text())["kernels"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([*emulator, link(folder)], stdin=pipe, stdout=pipe, stderr=pipe)
        self._base = int.from_bytes(self._receive(8), "little")

    def run(self, program: Program) -> None:
        """Runs a program to its end."""
        arguments = [a for instruction in program.instructions for a in instruction.arguments]
        image = Image([a for a in arguments if not isinstance(a, int)], self._base)
        calls = [self._words(instruction, image) for instruction in program.instructions]
        head = np.array([len(image.bytes), len(calls), self.n_threads], np.int64)
        assert self._process.stdin
        self._process.stdin.write(head.tobytes() + image.bytes + np.array(calls, np.int64).tobytes())
        self._process.stdin.flush()
        image.give_back(self._receive(len(image.bytes)))

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.communicate()

    def _words(self, instruction: Instruction, image: Image) -> list[int]:
        words = [a if isinstance(a, int) else image.moved(a.ctypes.data) for a in instruction.arguments]
        return [self._kernels.index(instruction.kernel.name), *words, *[0] * (18 - len(words))]

    def _receive(self, n: int) -> bytes:
        assert self._process.stdout
        received = self._process.stdout.read(n)
        if len(received) < n:
            _, err = self._process.communicate()
            raise RuntimeError(f"the emulated CPU ended with {self._process.returncode}: {err.decode()}")
        return received
