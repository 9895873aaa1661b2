"""Find the smallest cluster in which an implementation and the real scheduler still differ about a pod."""

from collections import Counter
from collections.abc import Iterator

from rescheduler.kube.errors import Invalid as NotAdmitted
from tests.e2e.scheduler_truth.comparison import Disagreement, compare
from tests.e2e.scheduler_truth.oracle import Oracle
from tests.e2e.scheduler_truth.random_cluster import NODES, Object, RandomCluster

__all__ = ["shrunk"]

_MOST_STEPS = 60


async def shrunk(
    cluster: RandomCluster, doubt: Disagreement, oracle: Oracle
) -> tuple[RandomCluster, Disagreement]:
    """Half of the objects less, a quarter less, one less, a field of the pod less, as long as they differ."""
    cluster = RandomCluster(cluster.objects, (doubt.question,))
    steps = 0
    smaller = _smaller(cluster)
    while steps < _MOST_STEPS and (candidate := next(smaller, None)) is not None:
        steps += 1
        found = await _differs(candidate, oracle)
        if found is not None:
            cluster, doubt, smaller = candidate, found, _smaller(candidate)
    return cluster, doubt


async def _differs(cluster: RandomCluster, oracle: Oracle) -> Disagreement | None:
    try:
        found = await compare(cluster, oracle, Counter())
    except NotAdmitted:
        return None
    return found[0] if found else None


def _smaller(cluster: RandomCluster) -> Iterator[RandomCluster]:
    removable = [item for item in cluster.objects if item["kind"] != "Node"]
    kept = [item for item in cluster.objects if item["kind"] == "Node"]
    size = len(removable)
    while size := size // 2:
        for start in range(0, len(removable), size):
            yield RandomCluster((*kept, *removable[:start], *removable[start + size :]), cluster.questions)
    (question,) = cluster.questions
    for name in NODES:
        rest = tuple(item for item in cluster.objects if _place(item) != name)
        if name != question.node and len(rest) < len(cluster.objects):
            yield RandomCluster(rest, cluster.questions)
    for field in ("tolerations", "affinity", "topologySpreadConstraints", "volumes", "initContainers"):
        if field in question.pod["spec"]:
            spec = {key: value for key, value in question.pod["spec"].items() if key != field}
            yield RandomCluster(cluster.objects, (question._replace(pod={**question.pod, "spec": spec}),))


def _place(item: Object) -> str:
    if item["kind"] == "Node":
        return str(item["metadata"]["name"])
    return str(item.get("spec", {}).get("nodeName", ""))
