"""python -m tests.kernels.arm.blocks FOLDER: instructions of a product for a block of 16 outputs and 32 columns.

Counted in the kernels.s that objects.py wrote, for each weights type and height of a tile: the loop over blocks, in
which a loop over columns counts as often as it runs.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from dllama_py.blocks import FloatType

TILE = re.compile(r"matmul4tile.*?Constant_28(\d+)_29.*?Constant_280_29.*?Tile_28f32x16_20x_20(\d)_29")
JUMP = re.compile(r"\t(?:b\.\w+|b|cbn?z|tbn?z|j\w+)\b.*?(\.LBB\w+)")
PRODUCT = re.compile(r"\t(\{vex\}\t)?(smull|smlal|sdot|m(ul|la)\tv\d+\.8h|vpdp|vpmadd|pmull)")
PREFETCH = re.compile(r"\t(prfm|prefetch)")
VECTORS = {FloatType.Q40: 4, FloatType.Q41: 4, FloatType.Q80: 8, FloatType.Q6K: 4}  # of a block; see layout.py
KINDS = {kind.ggml_type: kind for kind in VECTORS}


def loops(lines: list[str]) -> Iterator[list[str]]:
    """The lines of each loop: from a label to a jump back to it."""
    labels = {line.split(":")[0]: number for number, line in enumerate(lines) if line.startswith(".LBB")}
    for number, line in enumerate(lines):
        jump = JUMP.match(line)
        if jump and labels.get(jump[1], number) < number:
            yield lines[labels[jump[1]] : number + 1]


def n_instructions(lines: list[str]) -> int:
    return sum(re.match(r"\t[a-z{]", line) is not None for line in lines)


def cost(function: str, kind: FloatType) -> int:
    """Instructions of a block in a function's assembly."""
    hot = sorted((loop for loop in loops(function.split("\n")) if any(map(PRODUCT.match, loop))), key=len)
    blocks = next(loop for loop in hot if any(map(PREFETCH.match, loop)))
    columns = hot[0] if hot[0] is not blocks else []
    return n_instructions(blocks) + (VECTORS[kind] - 1) * n_instructions(columns)


def main(folder: Path) -> None:
    found = {}
    for function in re.split(r"\n(?=\"?_ZN[^\n]+:)", (folder / "kernels.s").read_text()):
        named = TILE.search(function.split("\n")[0])
        if named and int(named[1]) in KINDS:
            found[KINDS[int(named[1])], int(named[2])] = cost(function, KINDS[int(named[1])])
    for kind in VECTORS:
        print(kind.label, *(f"{height} rows: {found[kind, height]}" for height in (1, 4, 8)), sep="  ")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
