"""A program that uses the engine as the pages say: python guest.py MODEL EVENT FOLDER.

Each rank writes its process id into FOLDER. Of the root EVENT says: answer, wait (open, then wait for what the test
does), leave N (with that exit code, having called the engine but not met the others); of rank 1 it may be `threads N`.
"""

import asyncio
import os
import sys
from pathlib import Path

from dllama_py import Engine
from dllama_py.errors import DllamaError


async def main(model: str, event: str, folder: Path) -> None:
    with Engine.open(model, n_threads=1) as engine:
        (folder / "opened").touch()
        if event == "wait":
            await asyncio.sleep(1000)
        async for token in engine.generate_stream([1, 2, 3], max_tokens=4):
            print(token.id, flush=True)


if __name__ == "__main__":
    model, event, place = sys.argv[1:]
    Path(place, f"rank{os.environ['PMI_RANK']}.pid").write_text(str(os.getpid()))
    what, _, number = event.partition(" ")
    Engine.serve(threads=int(number) if what == "threads" else 1)
    if what == "leave":
        engine = Engine.open(model)
        sys.exit(int(number))
    try:
        asyncio.run(main(model, event, Path(place)))
    except DllamaError as error:
        print(f"{type(error).__name__}: {error}")
