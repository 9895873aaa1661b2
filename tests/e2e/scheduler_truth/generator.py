"""Generate random clusters from a seed: the same seed gives the same clusters."""

from collections.abc import Iterator
from random import Random

from tests.e2e.scheduler_truth.random_cluster import NODES, Object, Question, RandomCluster
from tests.e2e.scheduler_truth.random_nodes import random_nodes
from tests.e2e.scheduler_truth.random_pods import asking_pod, residents
from tests.e2e.scheduler_truth.random_storage import random_storage

__all__ = ["random_cluster_of", "random_clusters"]

_QUESTIONS = 50
_FOR_REAL = 2


def random_clusters(seed: int, questions: int) -> Iterator[RandomCluster]:
    """Generate as many clusters as it takes to ask so many questions."""
    number = 0
    while questions > 0:
        count = min(questions, _QUESTIONS)
        yield random_cluster_of(seed, number, count)
        questions -= count
        number += 1


def random_cluster_of(seed: int, number: int, count: int = _QUESTIONS) -> RandomCluster:
    rng = Random(f"{seed}/{number}")
    storage, claims = random_storage(rng, number)
    objects = [*storage, *random_nodes(rng), *residents(rng, claims)]
    asked = [asking_pod(rng, f"asking-{number}-{index}", claims) for index in range(count)]
    questions = [
        Question(pod, rng.choice(NODES), _can_be_bound(index, pod)) for index, pod in enumerate(asked)
    ]
    return RandomCluster(tuple(objects), tuple(questions))


def _can_be_bound(index: int, pod: Object) -> bool:
    """Claims that wait for their pod would be waited for: no controller binds volumes here."""
    return index < _FOR_REAL and not pod["spec"].get("volumes")
