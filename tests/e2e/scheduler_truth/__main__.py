"""Writes down anew what the real scheduler answers: python -m tests.e2e.scheduler_truth [PAIRS] [SEED]"""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.e2e.scheduler_truth.generator import worlds
from tests.e2e.scheduler_truth.oracle import oracle
from tests.e2e.scheduler_truth.recorded import RECORD, Recorded, write


async def record(pairs: int, seed: int) -> None:
    found: list[Recorded] = []
    with tempfile.TemporaryDirectory() as folder:
        async with oracle(Path(folder) / "control-plane") as real:
            for world in worlds(seed, pairs):
                async with real.living_in(world) as objects:
                    # The first answers may be early ones; by the second time, everything has been heard of.
                    await real.ask(world.questions[:1])
                    said = await real.ask(world.questions)
                    asked = zip(world.questions, said, strict=True)
                    answers = [(pod, question.node, truth) for question, (pod, truth) in asked]
                    found.append(Recorded(objects, answers))
    write(RECORD, seed, found)


if __name__ == "__main__":
    asyncio.run(record(*(int(number) for number in (*sys.argv[1:], *("400", "2")[len(sys.argv) - 1 :]))))
