"""Compare the real scheduler's answers with every implementation, for one random cluster."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.e2e.scheduler_truth.oracle import Oracle
from tests.e2e.scheduler_truth.random_cluster import Object, Question, RandomCluster
from tests.e2e.scheduler_truth.rule_implementations import IMPLEMENTATIONS, disagreement
from tests.e2e.scheduler_truth.verdicts import Refused

__all__ = ["Disagreement", "compare", "faults"]

_TRIES = 3


class Disagreement(NamedTuple):
    question: Question
    faults: list[str]


async def compare(cluster: RandomCluster, oracle: Oracle, seen: Counter[str]) -> list[Disagreement]:
    """What is left after asking again. What was agreed on is counted in `seen`, by its rule.

    The scheduler receives new objects a moment later than we do, so an answer that surprises may be an
    early one; asked again, it is not.
    """
    async with oracle.running_in(cluster) as objects:
        left: Sequence[Question] = cluster.questions
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
    objects: Sequence[Object],
    pod: Object,
    node: str,
    truth: Refused | str,
    implementations: Iterable[str] = IMPLEMENTATIONS,
) -> list[str]:
    """Return one line per implementation that disagrees."""
    found = (
        (name, disagreement(truth, IMPLEMENTATIONS[name](objects, pod, node))) for name in implementations
    )
    return [f"{name}: {fault}" for name, fault in found if fault]
