"""Answers for each line `more` that comes, and ends with any other: python idle.py MODEL, on all ranks."""

import asyncio
import sys

from dllama_py import Engine


async def main() -> None:
    with Engine.open(sys.argv[1], n_threads=1) as engine:
        line = "more"
        while line == "more":
            async for _ in engine.generate_stream([5, 6, 7], max_tokens=4):
                pass
            print("idle", flush=True)
            line = sys.stdin.readline().strip()


Engine.serve(threads=1)
asyncio.run(main())
