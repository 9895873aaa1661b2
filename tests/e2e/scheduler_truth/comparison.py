"""One world: the real scheduler's answers against every judge's."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.e2e.scheduler_truth.judges import JUDGES, disagreement
from tests.e2e.scheduler_truth.oracle import Oracle
from tests.e2e.scheduler_truth.verdicts import Refused
from tests.e2e.scheduler_truth.worlds import Object, Question, World

__all__ = ["Disagreement", "compare", "faults"]

_TRIES = 3


class Disagreement(NamedTuple):
    question: Question
    faults: list[str]


async def compare(world: World, oracle: Oracle, seen: Counter[str]) -> list[Disagreement]:
    """What is left after asking again. What was agreed on is counted in `seen`, by its rule.

    The scheduler hears of new objects a moment later than we do, so an answer that surprises may be an
    early one; asked again, it is not.
    """
    async with oracle.living_in(world) as objects:
        left: Sequence[Question] = world.questions
        doubts: list[Disagreement] = []
        for _ in range(_TRIES):
            doubts = []
            for question, (pod, truth) in zip(left, await oracle.ask(left), strict=True):
                if found := faults(objects, pod, question.node, truth):
                    doubts.append(Disagreement(question, found))
                else:
                    seen[truth.rule if isinstance(truth, Refused) else "fits"] += 1
            left = [doubt.question for doubt in doubts]
            if not left:
                break
            seen["asked again"] += len(left)
        return doubts


def faults(
    objects: Sequence[Object], pod: Object, node: str, truth: Refused | str, judges: Iterable[str] = JUDGES
) -> list[str]:
    """One line per judge that disagrees."""
    found = ((name, disagreement(truth, JUDGES[name](objects, pod, node))) for name in judges)
    return [f"{name}: {fault}" for name, fault in found if fault]
