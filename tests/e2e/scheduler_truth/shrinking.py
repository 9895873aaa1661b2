"""The smallest world in which a judge and the real scheduler still differ about a pod."""

from collections import Counter
from collections.abc import Iterator

from rescheduler.kube.errors import Invalid as NotAdmitted
from tests.e2e.scheduler_truth.comparison import Disagreement, compare
from tests.e2e.scheduler_truth.oracle import Oracle
from tests.e2e.scheduler_truth.worlds import NODES, Object, World

__all__ = ["shrunk"]

_MOST_STEPS = 60


async def shrunk(world: World, doubt: Disagreement, oracle: Oracle) -> tuple[World, Disagreement]:
    """Half of the objects less, a quarter less, one less, a field of the pod less, as long as they differ."""
    world = World(world.objects, (doubt.question,))
    steps = 0
    smaller = _smaller(world)
    while steps < _MOST_STEPS and (candidate := next(smaller, None)) is not None:
        steps += 1
        found = await _differs(candidate, oracle)
        if found is not None:
            world, doubt, smaller = candidate, found, _smaller(candidate)
    return world, doubt


async def _differs(world: World, oracle: Oracle) -> Disagreement | None:
    try:
        found = await compare(world, oracle, Counter())
    except NotAdmitted:
        return None
    return found[0] if found else None


def _smaller(world: World) -> Iterator[World]:
    removable = [item for item in world.objects if item["kind"] != "Node"]
    kept = [item for item in world.objects if item["kind"] == "Node"]
    size = len(removable)
    while size := size // 2:
        for start in range(0, len(removable), size):
            yield World((*kept, *removable[:start], *removable[start + size :]), world.questions)
    (question,) = world.questions
    for name in NODES:
        rest = tuple(item for item in world.objects if _place(item) != name)
        if name != question.node and len(rest) < len(world.objects):
            yield World(rest, world.questions)
    for field in ("tolerations", "affinity", "topologySpreadConstraints", "volumes", "initContainers"):
        if field in question.pod["spec"]:
            spec = {key: value for key, value in question.pod["spec"].items() if key != field}
            yield World(world.objects, (question._replace(pod={**question.pod, "spec": spec}),))


def _place(item: Object) -> str:
    if item["kind"] == "Node":
        return str(item["metadata"]["name"])
    return str(item.get("spec", {}).get("nodeName", ""))
