"""Which workload a pod belongs to, also if some objects are missing."""

import pytest

from rescheduler.cluster.snapshot import NO_ROW, Snapshot
from tests.building import ClusterBuilder, cluster


def workload_of(snapshot: Snapshot, key: str) -> tuple[str, str, bool] | None:
    """Kind, key, and whether there is a record of it."""
    index = snapshot.pods.workload[snapshot.pods.row[key]]
    if index == NO_ROW:
        return None
    found = snapshot.workloads[index]
    return found.kind, found.key, found.record is not None


def made() -> ClusterBuilder:
    return cluster().node("a")


@pytest.mark.parametrize(
    ("build", "pod", "expected"),
    [
        pytest.param(
            lambda: made().deployment("x/web"),
            "x/web-1-0",
            ("Deployment", "x/web", True),
            id="the Deployment, not its ReplicaSet",
        ),
        pytest.param(
            lambda: made().replica_set("x/web"),
            "x/web-0",
            ("ReplicaSet", "x/web", True),
            id="a ReplicaSet of its own",
        ),
        pytest.param(
            lambda: made().stateful_set("x/db"), "x/db-0", ("StatefulSet", "x/db", True), id="a StatefulSet"
        ),
        pytest.param(
            lambda: made().daemon_set("x/log", on=["a"]),
            "x/log-a",
            ("DaemonSet", "x/log", True),
            id="a DaemonSet",
        ),
        pytest.param(
            lambda: (
                made()
                .apply(
                    {
                        "kind": "CronJob",
                        "metadata": {"name": "c", "namespace": "x", "uid": "uid-of-cronjob-x-c"},
                    }
                )
                .job("x/c-1", on=["a"], owner="CronJob/c")
            ),
            "x/c-1-0",
            ("CronJob", "x/c", True),
            id="the CronJob, not its Job",
        ),
        pytest.param(lambda: made().pod("x/bare"), "x/bare", None, id="none"),
        pytest.param(
            lambda: made().pod("x/p", owner="ReplicaSet/web-1"),
            "x/p",
            ("ReplicaSet", "x/web-1", False),
            id="a ReplicaSet that was not shown: its name is all that is known",
        ),
        pytest.param(
            lambda: made().replica_set("x/web-1", owner="Deployment/web"),
            "x/web-1-0",
            ("Deployment", "x/web", False),
            id="a Deployment that was not shown",
        ),
        pytest.param(
            lambda: made().replica_set("x/web", owner="Rollout/web"),
            "x/web-0",
            ("ReplicaSet", "x/web", True),
            id="kinds that we don't read say nothing about pods",
        ),
        pytest.param(
            lambda: made().pod("x/p", owner="Rollout/web"),
            "x/p",
            ("Rollout", "x/web", False),
            id="unless they control the pod themselves",
        ),
    ],
)
def test_the_workload_of_a_pod(build, pod: str, expected: tuple[str, str, bool] | None):
    assert workload_of(build().snapshot(), pod) == expected


def test_owners_that_do_not_control_the_pod_don_t_count():
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}
    snapshot = made().pod("x/p", metadata={"ownerReferences": [reference]}).snapshot()
    assert workload_of(snapshot, "x/p") is None


def test_owners_in_a_circle_end_somewhere():
    circle = made().replica_set("x/one", owner="ReplicaSet/two").replica_set("x/two", owner="ReplicaSet/one")
    found = workload_of(circle.snapshot(), "x/one-0")
    assert found is not None
    assert found[0] == "ReplicaSet"


def test_pods_of_two_replica_sets_of_one_deployment_are_one_workload():
    both = made().deployment("x/web", replicas=2).replica_set("x/web-2", replicas=2, owner="Deployment/web")
    snapshot = both.snapshot()
    assert len(snapshot.workloads) == 1
    assert snapshot.pods.workload.tolist() == [0, 0, 0, 0]


def test_a_workload_that_is_learnt_after_its_pods_is_theirs():
    late = made().pod("x/p", owner="ReplicaSet/web-1")
    assert workload_of(late.snapshot(), "x/p") == ("ReplicaSet", "x/web-1", False)
    late.replica_set("x/web-1", replicas=0, owner="Deployment/web")
    assert workload_of(late.snapshot(), "x/p") == ("Deployment", "x/web", False)
    late.deployment("x/web", replicas=0)
    assert workload_of(late.snapshot(), "x/p") == ("Deployment", "x/web", True)
    late.state.remove_workload("ReplicaSet", "x/web-1")
    assert workload_of(late.snapshot(), "x/p") == ("ReplicaSet", "x/web-1", False)


def test_every_workload_that_was_read_is_found_by_uid():
    controllers = made().deployment("x/web").snapshot().controllers
    assert {record.kind for record in controllers.values()} == {"Deployment", "ReplicaSet"}
    assert controllers["uid-of-replicaset-x-web-1"].key == "x/web-1"


def test_workloads_are_numbered_in_the_order_of_rows():
    snapshot = made().deployment("x/z").deployment("x/a").stateful_set("w/m").snapshot()
    assert [workload.key for workload in snapshot.workloads] == ["w/m", "x/a", "x/z"]
