"""Record the answers of the real scheduler: python -m tests.e2e.scheduler_truth [PAIRS] [SEED]"""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.e2e.scheduler_truth.generator import random_clusters
from tests.e2e.scheduler_truth.oracle import oracle
from tests.e2e.scheduler_truth.recorded import RECORD, Recorded, write


async def record(pairs: int, seed: int) -> None:
    found: list[Recorded] = []
    with tempfile.TemporaryDirectory() as folder:
        async with oracle(Path(folder) / "control-plane") as real:
            for cluster in random_clusters(seed, pairs):
                async with real.running_in(cluster) as objects:
                    # The first answers may be too early; the second time, the scheduler knows all objects.
                    await real.ask(cluster.questions[:1])
                    said = await real.ask(cluster.questions)
                    asked = zip(cluster.questions, said, strict=True)
                    answers = [(pod, question.node, truth) for question, (pod, truth) in asked]
                    found.append(Recorded(objects, answers))
    write(RECORD, seed, found)


if __name__ == "__main__":
    asyncio.run(record(*(int(number) for number in (*sys.argv[1:], *("400", "2")[len(sys.argv) - 1 :]))))
