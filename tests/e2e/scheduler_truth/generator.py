"""World after world from a seed: the same seed, the same worlds."""

from collections.abc import Iterator
from random import Random

from tests.e2e.scheduler_truth.random_nodes import random_nodes
from tests.e2e.scheduler_truth.random_pods import asking_pod, residents
from tests.e2e.scheduler_truth.random_storage import random_storage
from tests.e2e.scheduler_truth.worlds import NODES, Object, Question, World

__all__ = ["random_world", "worlds"]

_QUESTIONS = 50
_FOR_REAL = 2


def worlds(seed: int, questions: int) -> Iterator[World]:
    """As many as it takes to ask so many questions."""
    number = 0
    while questions > 0:
        count = min(questions, _QUESTIONS)
        yield random_world(seed, number, count)
        questions -= count
        number += 1


def random_world(seed: int, number: int, count: int = _QUESTIONS) -> World:
    dice = Random(f"{seed}/{number}")
    storage, claims = random_storage(dice, number)
    objects = [*storage, *random_nodes(dice), *residents(dice, claims)]
    asked = [asking_pod(dice, f"asking-{number}-{index}", claims) for index in range(count)]
    questions = [
        Question(pod, dice.choice(NODES), _can_be_bound(index, pod)) for index, pod in enumerate(asked)
    ]
    return World(tuple(objects), tuple(questions))


def _can_be_bound(index: int, pod: Object) -> bool:
    """Claims that wait for their pod would be waited for: nobody binds volumes here."""
    return index < _FOR_REAL and not pod["spec"].get("volumes")
