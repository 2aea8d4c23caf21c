"""python -m tests.peers.golden_logits [--env DIR] [NAME ...]: llama.cpp's logits of tiny models, those of
tests/gguf_models.py and tests/tiny_models.py.

Writes tests/golden/NAME-llama-cpp.npy, float32 [positions, V], which the tests compare with; they need no llama.cpp.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from dllama_py.home import home_folder
from tests.checkpoints import OTHER_NAMES, tiny_gguf
from tests.gguf_models import GOLDEN_POSITIONS, IDS, NAMES, decided_gpt_oss, tiny_gguf_model
from tests.peers.environment import llama_python

GOLDEN = Path(__file__).parents[1] / "golden"
MXFP4 = "gpt-oss-mxfp4"
WORKER = Path(__file__).with_name("llama_worker.py")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", type=Path, default=home_folder() / "peers", help="the environment, made where missing")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    python = llama_python(parser.parse_args().env)
    for name in parser.parse_args().names or (*NAMES, *OTHER_NAMES, MXFP4):
        with tempfile.TemporaryDirectory() as scratch:
            model, out = made(Path(scratch) / f"{name}.gguf", name), Path(scratch) / "logits.npy"
            ids = ",".join(map(str, IDS))
            subprocess.run([python, "-I", WORKER, model, "1", "logits", ids, out], check=True)
            np.save(GOLDEN / f"{name}-llama-cpp.npy", np.load(out)[GOLDEN_POSITIONS])


def made(path: Path, name: str) -> Path:
    """With weights of f32, but for one that has the types of gpt-oss's real files."""
    if name == MXFP4:
        return decided_gpt_oss(path, "Q8_0")
    return tiny_gguf_model(path, name) if name in NAMES else tiny_gguf(path, name, "F32")


if __name__ == "__main__":
    main()
