"""A pod that names a workload of another namespace as its owner belongs to no workload.

Any user who may create pods in one namespace can write such a reference; the API server does not check it.
"""

import threading

import pytest

from rescheduler.api.well_known_names import MAINTENANCE_LABEL
from rescheduler.cluster.pod_classes import owner_chain
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.config.policy import FailedPodsPolicy, Policy
from rescheduler.planner.handover_choice import HandoverChooser, ImpossibleHandover
from rescheduler.planner.plan import Plan
from rescheduler.planner.plan_builder import build_plan
from rescheduler.planner.protections.pod_candidate import ProtectionContext
from rescheduler.planner.reasons import Reason
from rescheduler.recovery.recovery_decision import allowance_of
from rescheduler.strategies.strategy_registry import strategies_of
from tests.building import ClusterBuilder, cluster, merged
from tests.objects import pod_object

VICTIMS = {
    "a Deployment's": ("ReplicaSet", "web-1", "uid-of-replicaset-shop-web-1"),
    "a StatefulSet's": ("StatefulSet", "db", "uid-of-statefulset-shop-db"),
}
FORGERIES = {
    "under its name": {},
    "under another name": {"name": "mine"},
    "as another kind": {"kind": "Job", "apiVersion": "batch/v1"},
}


def shop() -> ClusterBuilder:
    return (
        cluster()
        .nodes("a", "b")
        .deployment("shop/web", replicas=1, on=["a"], annotations={"scheduling-retries": "5"})
        .stateful_set("shop/db", replicas=1, on=["a"], annotations={"scheduling-retries": "5"})
    )


def with_forged(victim: str, forgery: dict[str, str], namespace: str = "evil") -> Snapshot:
    kind, name, uid = VICTIMS[victim]
    reference = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
    } | forgery
    forged = merged(pod_object(f"{namespace}/forged", on="b"), {"metadata": {"ownerReferences": [reference]}})
    return shop().apply(forged).snapshot()


@pytest.fixture(params=[(v, d) for v in VICTIMS for d in FORGERIES], ids=" ".join)
def snapshot(request) -> Snapshot:
    victim, forgery = request.param
    return with_forged(victim, FORGERIES[forgery])


def test_it_belongs_to_an_unknown_workload_of_its_own(snapshot):
    workload = snapshot.workloads[snapshot.pods.workload[snapshot.pods.row["evil/forged"]]]
    assert workload.key.startswith("evil/")
    assert workload.record is None


def test_it_is_no_replica_of_the_other_workload(snapshot):
    around = ProtectionContext(
        snapshot, Policy(), urgent=False, steered=True, guarded=True, cordoned=snapshot.nodes.ready
    )
    for pod in ("shop/web-1-0", "shop/db-0"):
        assert around.readiness(snapshot.pods.row[pod]).ready == 1
    assert around.record(snapshot.pods.row["evil/forged"]) is None


def test_it_is_not_moved_as_the_other_workload_says(snapshot):
    row = snapshot.pods.row["evil/forged"]
    shared = snapshot.classes[snapshot.pods.pod_class[row]]
    found = HandoverChooser(snapshot, Policy()).choose(snapshot.pods.records[row], shared)
    if isinstance(found, ImpossibleHandover):
        assert found.reason is Reason.OWNER_UNKNOWN
    else:
        # A saved cluster without Jobs: nothing follows from not seeing its owner.
        assert "not read" in found.assumed or found.assumed


def test_its_failures_are_not_the_other_workloads(snapshot):
    pod = snapshot.pods.records[snapshot.pods.row["evil/forged"]]
    assert owner_chain(pod.namespace, pod.owner, snapshot.controllers) == ()
    assert allowance_of(pod, (), FailedPodsPolicy()) is None


def test_a_true_pod_of_that_workload_is_counted_as_before():
    snapshot = with_forged("a Deployment's", {})
    workload = snapshot.workloads[snapshot.pods.workload[snapshot.pods.row["shop/web-1-0"]]]
    assert (workload.key, workload.record is not None) == ("shop/web", True)


CYCLES = {
    "itself": [("a", "a")],
    "each other": [("a", "b"), ("b", "a")],
    "a ring": [("a", "b"), ("b", "c"), ("c", "a")],
    "a tail that leads into a ring": [("a", "b"), ("b", "c"), ("c", "b")],
}


@pytest.mark.parametrize("kind", ["ReplicaSet", "Job"])
@pytest.mark.parametrize("links", CYCLES.values(), ids=CYCLES)
def test_workloads_that_own_themselves_end_no_plan(kind, links):
    """The API server accepts any owner, and every tenant may write one: a cycle must not keep the planner
    busy forever."""
    above = dict(links)
    building = cluster().node("a", labels={MAINTENANCE_LABEL: "true"}).node("b")
    for name, owner in above.items():
        make = building.replica_set if kind == "ReplicaSet" else building.job
        make(f"evil/{name}", owner=f"{kind}/{owner}", on=["a"])
    snapshot = building.deployment("shop/web", replicas=1, on=["a"]).snapshot()
    plans: list[Plan] = []

    def plan() -> None:
        policy = Policy(enabled_strategies=("NodeMaintenance",), include_jobs=True)
        plans.append(build_plan(snapshot, policy, strategies_of(policy)))

    planning = threading.Thread(target=plan, daemon=True)
    planning.start()
    planning.join(timeout=20)
    assert "shop/web-1-0" in {move.pod for made in plans for move in made.moves}
