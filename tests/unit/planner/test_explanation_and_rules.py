"""The verdicts of `explain` on each node, compared with the simulator's independent scheduler."""

import copy
from collections import defaultdict
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from kubesim.scheduler.node_filtering import prepare
from kubesim.scheduler.node_info import PodInfo
from kubesim.scheduler.scheduler_cache import SchedulerCache
from rescheduler.cluster.node_record import in_maintenance
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.config.policy import Policy
from rescheduler.planner.available_nodes import NodeAvailability
from rescheduler.planner.explanation import explain_node, explain_pod
from tests.building import ClusterBuilder, cluster
from tests.objects import REQUIRED
from tests.unit.rules.random_clusters import random_cluster

POLICY = Policy()


def admitted(built: ClusterBuilder) -> ClusterBuilder:
    """Merge label keys into selectors, as the API server does at admission."""
    found = cluster()
    for item in copy.deepcopy(built.objects):
        if item["kind"] == "Pod":
            for term in _terms(item["spec"].get("affinity") or {}):
                _merge(term, item["metadata"].get("labels") or {})
        found.apply(item)
    return found


def _terms(affinity: dict) -> Iterator[dict]:
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from (affinity.get(kind) or {}).get(REQUIRED) or ()


def _merge(term: dict, labels: dict) -> None:
    for keys, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(keys) or ():
            if key in labels and term.get("labelSelector") is not None:
                expressions = term["labelSelector"].setdefault("matchExpressions", [])
                expressions.append({"key": key, "operator": operator, "values": [labels[key]]})


def refusals_by_the_scheduler(
    built: ClusterBuilder, key: str, *, source_stays: bool
) -> tuple[bool, dict[str, set]]:
    """Whether it refuses a copy of that pod on every node; and what its filters say, by node."""
    newest = {(each["kind"], _key(each)): each for each in built.objects}
    view = SchedulerCache.of(newest.values())
    source = PodInfo(newest["Pod", key])
    metadata = source.object["metadata"] | {"name": "the-copy", "uid": "uid-of-the-copy"}
    metadata.pop("deletionTimestamp", None)
    status = {"phase": "Pending"}
    spec = {**source.spec, "nodeName": ""}
    newcomer = PodInfo(source.object | {"metadata": metadata, "spec": spec, "status": status})
    with view.without(() if source_stays else [source]):
        prepared = prepare(newcomer, view)
        return prepared.refused is not None, {
            name: {(each.filter, reason) for each in prepared.refusals(node) for reason in each.reasons}
            for name, node in view.nodes.items()
        }


def refusals_explained(places: NodeAvailability) -> dict[str, set]:
    found = defaultdict(set)
    for each in places.forbidden:
        for node, _ in each.nodes:
            found[node].add((str(each.rule), each.reason))
    return found


OURS = {"AlreadyHere", "NodeReady", "Planner"}


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 100_000))
def test_each_node_is_forbidden_by_the_same_filters_in_the_same_words(seed):
    built = admitted(random_cluster(seed))
    snapshot = built.snapshot()
    for key in list(snapshot.pods.row):
        explained = explain_pod(snapshot, POLICY, key)
        if explained.places is None or any(each.ephemeral for each in _pod(snapshot, key).volumes):
            continue  # a new volume would have to be made for a copy first
        stays = explained.handover is None or explained.handover.source_stays
        is_refused, truth = refusals_by_the_scheduler(built, key, source_stays=stays)
        reported = refusals_explained(explained.places)
        for name, node in snapshot.nodes.row.items():
            if name == explained.node:
                assert reported[name] == {("AlreadyHere", "node(s) were already running the pod")}
                continue
            mine = {each for each in reported[name] if each[0] not in OURS}
            # A pod that is refused on every node is not asked about further.
            assert mine == truth[name] or (is_refused and mine > truth[name]), (key, name)
            record = snapshot.nodes.records[node]
            open_to = record.is_ready and not record.unschedulable and not in_maintenance(record)
            assert (name in explained.places.available) == (open_to and not truth[name]), (key, name)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 100_000))
def test_a_node_counts_the_targets_of_its_pods_as_each_pod_does(seed):
    snapshot = random_cluster(seed).snapshot()
    for name in snapshot.nodes.row:
        for pod in explain_node(snapshot, POLICY, name).pods:
            alone = explain_pod(snapshot, POLICY, pod.pod)
            assert alone.places is not None
            if not pod.kept_by:
                assert pod.targets == len(alone.places.available)
                assert pod.handover is alone.handover


def _pod(snapshot: Snapshot, key: str) -> PodRecord:
    return snapshot.pods.records[snapshot.pods.row[key]]


def _key(item: dict) -> str:
    namespace = item["metadata"].get("namespace")
    return f"{namespace}/{item['metadata']['name']}" if namespace else item["metadata"]["name"]
