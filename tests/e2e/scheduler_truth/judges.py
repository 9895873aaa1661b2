"""Those who must agree with the real scheduler.

A judge is a function of the cluster's plain objects, the pod and the node's name; it returns every rule
that refuses, none if the pod fits.
"""

from collections.abc import Callable, Iterable, Sequence

from kubesim.scheduler.node_filtering import prepare
from kubesim.scheduler.node_info import PodInfo
from kubesim.scheduler.scheduler_cache import SchedulerCache
from rescheduler.rules.placement import Placement
from tests.building import cluster
from tests.e2e.scheduler_truth.verdicts import FITS, Refused
from tests.e2e.scheduler_truth.worlds import Object

__all__ = ["JUDGES", "Judge", "disagreement"]

Judge = Callable[[Sequence[Object], Object, str], list[Refused]]


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


JUDGES: dict[str, Judge] = {"simulator": simulator, "rules": rules}


def disagreement(truth: Refused | str, judged: Iterable[Refused]) -> str:
    """In words; empty if they agree. The real scheduler names only the first rule that refuses."""
    by_rule = {refused.rule: refused for refused in judged}
    said = ", ".join(f"{rule} {sorted(refused.reasons)}" for rule, refused in by_rule.items()) or "it fits"
    if isinstance(truth, str):
        return f"truly {truth.removeprefix('truth: ')}, judged: {said}" if by_rule or truth != FITS else ""
    mine = by_rule.get(truth.rule)
    if mine is None or (mine.reasons and mine.reasons != truth.reasons):
        return f"truly {truth.rule} {sorted(truth.reasons)}, judged: {said}"
    return ""
