"""Budgets, namespaces, storage and migrations in a snapshot."""

from typing import Any

import pytest

from rescheduler.api.podmigration import UnreadableMigration
from rescheduler.cluster.cluster_state import APPLIERS, ClusterState, apply_object
from rescheduler.cluster.object_meta import UnreadableObject
from rescheduler.cluster.storage_records import ClaimRecord, Storage
from tests.building import NOW, ClusterBuilder, cluster


def migration(name: str, uid: str, phase: str, finished: str = "", target: str = "") -> dict[str, Any]:
    status: dict[str, Any] = {"phase": phase}
    if finished:
        status["finishedAt"] = finished
    if target:
        status["targetPod"] = {"name": "copy", "uid": target}
    return {
        "kind": "PodMigration",
        "metadata": {"name": name, "namespace": "x", "creationTimestamp": "2026-03-02T10:00:00Z"},
        "spec": {"pod": {"name": "p", "uid": uid}, "sourceNode": "a"},
        "status": status,
    }


def test_budgets_are_sorted_by_key():
    snapshot = cluster().budget("x/b").budget("w/c").budget("x/a").snapshot()
    assert [budget.key for budget in snapshot.budgets] == ["w/c", "x/a", "x/b"]


def test_namespaces_have_their_labels():
    snapshot = cluster().namespace("x", team="a").snapshot()
    assert snapshot.namespaces == {"x": {"kubernetes.io/metadata.name": "x", "team": "a"}}


def test_storage_is_found_by_key():
    made = cluster().claim("x/data", volume="v").volume("v", claim="x/data").storage_class("standard")
    storage = made.csi_node("a", disks__example__com=3).snapshot().storage
    assert storage.claims["x/data"].volume == "v"
    assert storage.volumes["v"].claim is not None
    assert storage.classes["standard"].provisioner == "disks.example.com"
    assert storage.csi_nodes["a"].drivers == {"disks.example.com": 3}
    made.state.remove_storage(ClaimRecord, "x/data")
    assert made.snapshot().storage.claims == {}


def test_running_migrations_hold_their_pods_and_finished_ones_have_a_time():
    made = cluster()
    made.apply(migration("m1", "u1", "InProgress", target="u1-copy"))
    made.apply(migration("m2", "u2", "Completed", "2026-03-02T11:00:00Z", target="u2-copy"))
    made.apply(migration("m3", "u3", "Failed", "2026-03-02T11:30:00Z"))
    snapshot = made.snapshot()
    assert snapshot.moving == {"u1", "u1-copy"}
    assert snapshot.recent_moves == {"u2": NOW - 3600, "u2-copy": NOW - 3600, "u3": NOW - 1800}
    assert snapshot.failed_moves == {"u3": NOW - 1800}
    made.state.remove_migration("x/m1")
    assert made.snapshot().moving == frozenset()


def test_the_latest_of_several_migrations_of_a_pod_counts():
    made = cluster().apply(migration("m1", "u", "Completed", "2026-03-02T11:00:00Z"))
    made.apply(migration("m2", "u", "Failed", "2026-03-02T10:00:00Z"))
    assert made.snapshot().recent_moves == {"u": NOW - 3600}


def test_where_copies_of_a_pod_could_not_run_is_remembered():
    made = cluster()
    for number, (node, failure) in enumerate((("b", "CopyFailing"), ("a", "CopyFailing"), ("c", "TimedOut"))):
        failed = migration(f"m{number}", "u", "Failed", "2026-03-02T10:00:00Z")
        failed["status"] |= {"failure": failure, "targetNode": node}
        made.apply(failed)
    assert made.snapshot().failed_on == {"u": ("a", "b")}


def test_a_snapshot_says_when_it_was_taken_and_how_old_its_records_may_be():
    snapshot = cluster().state.freeze(NOW, staleness_s=12.5, assumptions=["so"])
    assert (snapshot.taken_at_s, snapshot.staleness_s, snapshot.assumptions) == (NOW, 12.5, ("so",))


@pytest.mark.parametrize("kind", sorted(APPLIERS))
def test_an_object_that_is_invalid_is_refused_with_its_kind_and_changes_nothing(kind: str):
    state = ClusterState()
    broken = {
        "metadata": {"name": "n", "namespace": "x", "creationTimestamp": 5, "labels": "none"},
        "spec": 5,
    }
    with pytest.raises((UnreadableObject, UnreadableMigration), match=f"{kind} x/n"):
        apply_object(state, kind, broken)
    snapshot = state.freeze(NOW)
    held = (snapshot.controllers, snapshot.budgets, snapshot.namespaces, snapshot.moving, snapshot.storage)
    assert held == ({}, (), {}, frozenset(), Storage())


def test_removing_what_is_not_there_does_nothing():
    made = ClusterBuilder().node("a")
    for remove in (
        made.state.remove_pod,
        made.state.remove_node,
        made.state.remove_budget,
        made.state.remove_namespace,
        made.state.remove_migration,
    ):
        remove("nobody")
    made.state.remove_workload("Deployment", "x/nobody")
    assert len(made.snapshot().nodes) == 1


@pytest.mark.parametrize("known", [0, 2], ids=["into an empty state", "into one that has some of them"])
def test_many_pods_at_once_make_the_same_snapshot_as_one_by_one(known):
    """A first reading fills the columns at once; what was there before is replaced."""
    made = cluster().node("a").node("b")
    for number in range(6):
        made.pod(f"x/p{number}", on="ab"[number % 2], cpu=f"{number}00m")
    pods = list(made.snapshot().pods.records)
    at_once, singly = ClusterState(), ClusterState()
    for state in (at_once, singly):
        for node in made.snapshot().nodes.records:
            state.apply_node(node)
        for pod in pods[:known]:
            state.apply_pod(pod)
    at_once.apply_pods(pods)
    for pod in pods:
        singly.apply_pod(pod)
    for state in (at_once, singly):
        state.remove_pod("x/p3")
    found, expected = at_once.freeze(NOW), singly.freeze(NOW)
    assert found.pods.records == expected.pods.records
    for column in ("node", "requests", "load", "measured", "priority", "pod_class", "ready", "created_s"):
        assert (getattr(found.pods, column) == getattr(expected.pods, column)).all(), column
    assert (found.nodes.requested == expected.nodes.requested).all()


def test_pods_with_the_same_key_at_once_are_one_pod():
    made = cluster().node("a").pod("x/p", on="a")
    (pod,) = made.snapshot().pods.records
    state = ClusterState()
    state.apply_pods([pod, pod])
    assert [each.key for each in state.freeze(NOW).pods.records] == ["x/p"]
