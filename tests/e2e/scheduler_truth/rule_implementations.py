"""The implementations that must agree with the real scheduler.

An implementation is a function of the cluster's plain objects, the pod and the node's name; it returns
every rule that refuses, none if the pod fits.
"""

from collections.abc import Callable, Iterable, Sequence

from kubesim.scheduler.node_filtering import prepare
from kubesim.scheduler.node_info import PodInfo
from kubesim.scheduler.scheduler_cache import SchedulerCache
from rescheduler.rules.placement import Placement
from tests.building import cluster
from tests.e2e.scheduler_truth.random_cluster import Object
from tests.e2e.scheduler_truth.verdicts import FITS, Refused

__all__ = ["IMPLEMENTATIONS", "RuleImplementation", "disagreement"]

RuleImplementation = Callable[[Sequence[Object], Object, str], list[Refused]]


def simulator(objects: Sequence[Object], pod: Object, node: str) -> list[Refused]:
    cluster = SchedulerCache.of(objects)
    prepared = prepare(PodInfo(pod), cluster)
    refusals = prepared.refusals(cluster.nodes[node])
    return [Refused(refusal.filter, frozenset(refusal.reasons)) for refusal in refusals]


def rules(objects: Sequence[Object], pod: Object, node: str) -> list[Refused]:
    found = cluster()
    for item in (*objects, {**pod, "kind": "Pod"}):
        found.apply(item)
    snapshot = found.snapshot()
    asking = snapshot.pods.row[f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"]
    refusals = Placement(snapshot).refusals(asking, snapshot.nodes.row[node], source_stays=True)
    return [Refused(refusal.rule, frozenset(refusal.reasons)) for refusal in refusals]


IMPLEMENTATIONS: dict[str, RuleImplementation] = {"simulator": simulator, "rules": rules}


def disagreement(truth: Refused | str, refused_by: Iterable[Refused]) -> str:
    """Describe the disagreement; empty if they agree. The real scheduler names only the first rule that
    refuses.
    """
    by_rule = {refused.rule: refused for refused in refused_by}
    said = ", ".join(f"{rule} {sorted(refused.reasons)}" for rule, refused in by_rule.items()) or "it fits"
    if isinstance(truth, str):
        return f"truly {truth.removeprefix('truth: ')}, but: {said}" if by_rule or truth != FITS else ""
    mine = by_rule.get(truth.rule)
    if mine is None or (mine.reasons and mine.reasons != truth.reasons):
        return f"truly {truth.rule} {sorted(truth.reasons)}, but: {said}"
    return ""
