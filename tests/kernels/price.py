"""python -m tests.kernels.price MODEL.m [--threads 2] [--positions 168] [--tokens 300]: the price of one answer.

The decode program as it is, and in variants that give up the fixed order: `leaves`, the sums of o and down over whole
rows of the matrix at once; `exp and tiles`, a shorter exp and attention in one sum over all positions; `all` of it.
They take turns at every token, each computing the same token at the same position, on one rank.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from dllama_py.boot import Engine
from dllama_py.cli.measuring import some_prompt
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.step import Row, Work
from dllama_py.kernels.product_words import Product
from dllama_py.kernels.program import Instruction, Program
from dllama_py.kernels.work import HALF_CACHE
from dllama_py.model.buffers import Buffers
from dllama_py.transport.comm import SoloComm
from tests.kernels.cheapest import CHEAP_ATTENTION, CHEAP_HIDDEN
from tests.support.engines import engine_on

AS_IT_IS = "as it is"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--positions", type=int, default=168, help="in the cache before the first token")
    parser.add_argument("--tokens", type=int, default=300)
    options = parser.parse_args()
    with engine_on(SoloComm(), options.model, n_threads=options.threads) as engine:
        assert engine is not None and engine.orders.half_cache, "the cheap attention reads a cache of halves"
        seconds = timed(engine, variants(engine), options.positions, options.tokens)
    print("milliseconds a token    best  quarter   median    what the fixed order costs of each")
    for name, cheap in seconds.items():
        prices = "".join(
            f"{100 * (a / b - 1):9.1f} %" for a, b in zip(marks(seconds[AS_IT_IS]), marks(cheap), strict=True)
        )
        times = "".join(f"{1000 * mark:9.3f}" for mark in marks(cheap))
        print(f"{name:19}{times}{'' if name == AS_IT_IS else prices}")


def marks(seconds: Sequence[float]) -> tuple[float, ...]:
    """The best, the one at a quarter and the one in the middle: what disturbs makes slower only."""
    return tuple(np.quantile(seconds, part) for part in (0, 0.25, 0.5))


def variants(engine: Engine) -> dict[str, Program]:
    """Programs of all layers, by name."""
    model = engine.runner.model
    own = model._plain[0]  # what a variant is made from is nobody else's business

    def program(*changes: Callable[[Sequence[Instruction], Buffers], list[Instruction]]) -> Program:
        instructions: Sequence[Instruction] = own.instructions
        for change in changes:
            instructions = change(instructions, model.buffers)
        return Program(instructions, own.halt)

    return {
        AS_IT_IS: own,
        "leaves": program(without_leaves),
        "exp and tiles": program(with_cheap_kernels),
        "all": program(without_leaves, with_cheap_kernels),
    }


def without_leaves(instructions: Sequence[Instruction], buffers: Buffers) -> list[Instruction]:
    """Products of o and down in one sum each, straight to where the tree's sum would be."""
    return [_whole(each, buffers) for each in instructions if each.kernel.name != "tree_sum"]


def _whole(instruction: Instruction, buffers: Buffers) -> Instruction:
    if not instruction.kernel.name.startswith("matmul") or instruction.arguments[Product.N_LEAVES] == 1:
        return instruction
    words = list(instruction.arguments)
    words[Product.LEAVES] = np.array([0, words[Product.N_BLOCKS]], np.int64)
    words[Product.N_LEAVES] = 1
    words[Product.LEAF_STRIDE] = 0
    words[Product.OUT], words[Product.OUT_STRIDE] = buffers.sum, buffers.sum.strides[0]
    return replace(instruction, arguments=tuple(words))


def with_cheap_kernels(instructions: Sequence[Instruction], buffers: Buffers) -> list[Instruction]:
    """Attention and the feed-forward's hidden rows by cheaper kernels with the same words."""
    cheap = {HALF_CACHE: CHEAP_ATTENTION, "gated_hidden": CHEAP_HIDDEN}
    return [replace(each, kernel=cheap.get(each.kernel.name, each.kernel)) for each in instructions]


def timed(engine: Engine, programs: dict[str, Program], n_positions: int, n_tokens: int) -> dict[str, list[float]]:
    """Seconds of every token by every program; who is first changes from token to token."""
    runner, ask = engine.runner, SamplerSettings().ask(engine.orders.config.vocab_size)
    ids = some_prompt(engine, n_positions + n_tokens)
    for _ in CachedSequence(runner, slot=0).feed(ids[:n_positions], ask=ask):
        pass
    names, seconds = list(programs), {name: [] for name in programs}
    for number in range(n_tokens):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            position = n_positions + number
            runner.cut(0, position)
            runner.model._plain = (programs[name],) * 2
            started = time.perf_counter()
            runner.forward(Work([Row(ids[position], 0, position)], [0], [ask]))
            seconds[name].append(time.perf_counter() - started)
    return seconds


if __name__ == "__main__":
    main()
