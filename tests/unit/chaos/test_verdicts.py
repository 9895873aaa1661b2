"""Which faults the observer of the chaos rounds finds, in histories written in this file."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.chaos.api_observer import ApiObserver
from tests.e2e.chaos.audit_trail import AuditedRequest
from tests.e2e.chaos.object_versions import (
    Budget,
    MigrationState,
    NodeState,
    PodState,
    Version,
    WorkloadState,
)
from tests.e2e.chaos.round_summary import summarize

BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
DAEMON = "system:serviceaccount:home:rescheduler"
SECOND = 10
"""Revisions: ten of them are a second here."""


def at(revision):
    return BEGIN + timedelta(seconds=revision / SECOND)


def pod(name, node="n1", **changed):
    state = PodState(
        namespace="shop", name=name, uid=f"uid-{name}", app="web", node=node, is_ready=True,
        is_leaving=False, is_over=False, removal_asked_at=None, was_evicted=False, was_preempted=False,
        owners=(("ReplicaSet", "uid-web"),), is_gated=False, mark="", is_forged=False, priority=0,
    )  # fmt: skip
    return state._replace(**changed)


def node(name, **changed):
    state = NodeState(name, f"uid-{name}", True, False, (), False, "", False)
    return state._replace(**changed)


def migration(**changed):
    state = MigrationState(
        key="shop/move", uid="uid-move", namespace="shop", pod="source", pod_uid="uid-source", copy="copy",
        copy_uid="uid-copy", phase="InProgress", step="Evicting", handover="Adopt", failure="",
        strategy="Manual", has_finalizer=True,
    )  # fmt: skip
    return state._replace(**changed)


def asked(verb, resource, name, revision, user=DAEMON, namespace="shop"):
    moment = at(revision)
    return AuditedRequest(user, verb, resource, namespace, name, moment, moment)


class Scenario:
    """At revision 100 the source is on n1 and its copy on n2, both ready; the ReplicaSet wants one pod."""

    def __init__(self):
        self.seen = ApiObserver(None)
        self.requests = []
        for name in ("n1", "n2"):
            self.note(self.seen.nodes, 1, node(name))
        self.note(self.seen.workloads, 1, WorkloadState("shop/web", "uid-web", "ReplicaSet", 1, False, ()))
        self.note(self.seen.pods, 1, pod("source"))
        self.note(self.seen.pods, 50, pod("copy", node="n2"))
        self.note(self.seen.migrations, 60, migration())

    def note(self, history, revision, state, uid=""):
        history.versions.setdefault(uid or state.uid, []).append(Version(revision, at(revision), state))

    def evicted(self, name, revision, by=DAEMON):
        known = self.seen.pods.versions[f"uid-{name}"][-1].state
        leaving = known._replace(is_leaving=True, was_evicted=True, removal_asked_at=at(revision))
        self.note(self.seen.pods, revision, leaving)
        self.note(self.seen.pods, revision + 10, None, uid=known.uid)
        if by:
            self.requests.append(asked("create", "pods/eviction", name, revision, user=by))

    def ended(self, revision=900):
        self.note(self.seen.migrations, revision, migration(phase="Completed", has_finalizer=False))

    def summary(self):
        return summarize(1, self.seen, self.requests, Counter())


@pytest.fixture
def scenario():
    return Scenario()


def test_a_source_that_is_evicted_beside_its_ready_copy_is_no_fault(scenario):
    scenario.evicted("source", 100)
    scenario.ended()
    summary = scenario.summary()
    assert summary.faults == []
    assert summary.evictions == {"Adopt": 1}


def test_a_source_that_is_evicted_before_its_copy_is_ready(scenario):
    scenario.note(scenario.seen.pods, 80, pod("copy", node="n2", is_ready=False))
    scenario.evicted("source", 100)
    (fault,) = scenario.summary().too_few
    assert "its copy is not ready" in fault


@pytest.mark.parametrize(
    ("lost_at", "faults", "races"),
    [
        pytest.param(50, 1, 0, id="long before: a fault"),
        pytest.param(95, 0, 1, id="while the request was on its way: distinguished"),
    ],
)
def test_a_source_that_is_evicted_when_the_node_of_its_copy_is_gone(scenario, lost_at, faults, races):
    scenario.note(scenario.seen.nodes, lost_at, None, uid="uid-n2")
    scenario.evicted("source", 100)
    summary = scenario.summary()
    assert (len(summary.too_few), len(summary.races)) == (faults, races)


def test_an_eviction_that_is_not_in_the_audit_log(scenario):
    """It is checked if a migration names the pod."""
    scenario.note(scenario.seen.pods, 80, pod("copy", node="n2", is_ready=False))
    scenario.evicted("source", 100, by="")
    assert len(scenario.summary().too_few) == 1


def test_an_eviction_by_another_client_is_not_ours(scenario):
    scenario.note(scenario.seen.pods, 80, pod("copy", node="n2", is_ready=False))
    scenario.evicted("source", 100, by="admin")
    assert scenario.summary().too_few == []


def test_of_two_migrations_that_name_a_pod_the_one_that_is_under_way_counts(scenario):
    other = migration(
        key="shop/other", uid="uid-other", phase="Pending", handover="Auto", copy="", copy_uid=""
    )
    scenario.seen.migrations.versions = {
        "uid-other": [Version(59, at(59), other)],
        **scenario.seen.migrations.versions,
    }
    scenario.evicted("source", 100)
    assert scenario.summary().too_few == []


def test_a_copy_that_is_removed_after_its_source(scenario):
    scenario.evicted("source", 100, by="admin")
    scenario.evicted("copy", 150)
    (fault,) = scenario.summary().too_few
    assert "its source is not ready" in fault


def test_a_copy_that_was_collected_with_its_migration(scenario):
    scenario.evicted("source", 100)
    copy = pod("copy", node="n2", owners=(("PodMigration", "uid-move"), ("ReplicaSet", "uid-web")))
    scenario.note(scenario.seen.pods, 110, copy)
    scenario.evicted("copy", 150, by="system:serviceaccount:kube-system:generic-garbage-collector")
    assert len(scenario.summary().too_few) == 1


def test_a_copy_whose_workload_was_deleted_and_made_again_is_no_longer_promised(scenario):
    scenario.note(scenario.seen.workloads, 90, None, uid="uid-web")
    scenario.note(
        scenario.seen.workloads, 95, WorkloadState("shop/web", "uid-new", "ReplicaSet", 1, False, ())
    )
    scenario.evicted("source", 100, by="admin")
    scenario.evicted("copy", 150)
    assert scenario.summary().too_few == []


def test_a_copy_without_its_workload_is_no_bare_pod(scenario):
    """Only its migration is left as its owner."""
    scenario.note(scenario.seen.workloads, 90, None, uid="uid-web")
    scenario.note(scenario.seen.pods, 91, pod("copy", node="n2", owners=(("PodMigration", "uid-move"),)))
    scenario.evicted("source", 95, by="system:serviceaccount:kube-system:generic-garbage-collector")
    scenario.evicted("copy", 100)
    assert scenario.summary().too_few == []


def test_a_lost_sibling_explains_an_unmet_budget(scenario):
    """It was lost just before, and is evicted later."""
    scenario.note(scenario.seen.budgets, 1, Budget("shop/web", "uid-budget", "shop", "web", 2, True, False))
    scenario.note(scenario.seen.pods, 1, pod("sibling"))
    scenario.note(scenario.seen.pods, 95, pod("sibling", is_ready=False))
    scenario.evicted("source", 100)
    scenario.evicted("sibling", 300)
    assert scenario.summary().too_few == []


def test_a_copy_under_an_unmet_budget(scenario):
    """The copy is deleted under a budget that was not met before the move either."""
    scenario.note(scenario.seen.budgets, 1, Budget("shop/web", "uid-budget", "shop", "web", 2, True, False))
    leaving = pod("copy", node="n2", is_leaving=True, removal_asked_at=at(100))
    scenario.note(scenario.seen.pods, 100, leaving)
    scenario.requests.append(asked("delete", "pods", "copy", 100))
    assert scenario.summary().too_few == []


@pytest.mark.parametrize(
    ("taken_at", "faults"),
    [
        pytest.param(90, 0, id="others have removed a pod just before"),
        pytest.param(20, 1, id="others have removed a pod long before"),
    ],
)
def test_an_eviction_under_a_budget_that_demands_more(scenario, taken_at, faults):
    budget = Budget("shop/web", "uid-budget", "shop", "web", 2, True, False)
    scenario.note(scenario.seen.budgets, 1, budget)
    scenario.note(scenario.seen.pods, 1, pod("sibling"))
    scenario.evicted("sibling", taken_at, by="admin")
    scenario.evicted("source", 100)
    assert len(scenario.summary().too_few) == faults


def test_a_pod_without_migration_and_a_node_without_maintenance(scenario):
    scenario.requests += [
        asked("patch", "pods", "bystander", 100),
        asked("patch", "nodes", "n1", 100, namespace=""),
        asked("patch", "deployments", "web", 100),
        asked("patch", "pods", "source", 100),
        asked("create", "events", "web.1", 100),
    ]
    assert [each.split(": ")[1] for each in scenario.summary().harmed] == [
        "patch pods shop/bystander",
        "patch nodes n1",
        "patch deployments shop/web",
    ]


def test_attempts_are_recorded_only_where_the_owner_allows_retries(scenario):
    """`scheduling-retries` on one of two Deployments, and a failed attempt written onto each."""
    for name, allows in (("asked", True), ("unasked", False)):
        state = WorkloadState(
            f"shop/{name}", f"uid-{name}", "Deployment", 1, False, (), allows_retries=allows
        )
        scenario.note(scenario.seen.workloads, 1, state)
        scenario.requests.append(asked("patch", "deployments", name, 100))
    (fault,) = scenario.summary().harmed
    assert "patch deployments shop/unasked" in fault


@pytest.mark.parametrize(
    ("handover", "faults"),
    [pytest.param("Evict", 0, id="of an evicted pod"), pytest.param("Adopt", 1, id="beside a copy")],
)
def test_a_replacement_that_is_marked_but_not_recorded(scenario, handover, faults):
    """A migration that gives up while it waits has marked the pod that its controller created."""
    scenario.note(scenario.seen.migrations, 90, migration(handover=handover, copy="", copy_uid=""))
    scenario.note(scenario.seen.pods, 95, pod("replacement"))
    scenario.requests.append(asked("patch", "pods", "replacement", 100))
    assert len(scenario.summary().harmed) == faults


def test_what_a_deployment_passes_on_to_its_replica_set_is_not_left_over(scenario):
    """The Deployment controller copies annotations, and never removes them from the ReplicaSet again."""
    scenario.ended()
    passed_on = WorkloadState("shop/old", "uid-old", "ReplicaSet", 0, False, ("attempts",), "uid-deployment")
    scenario.note(scenario.seen.workloads, 100, passed_on)
    assert not any("attempts" in each for each in scenario.summary().left)


@pytest.mark.parametrize(
    ("manager", "faults"),
    [pytest.param("kubectl", 1, id="of kubectl"), pytest.param("rescheduler", 0, id="of rescheduler")],
)
def test_a_cordon_that_rescheduler_undoes(scenario, manager, faults):
    cordoned = node("n1", is_cordoned=True, cordon_managers=(manager,), cordoned_by="NodeMaintenance")
    scenario.note(scenario.seen.nodes, 100, cordoned)
    scenario.note(scenario.seen.nodes, 200, node("n1"))
    scenario.requests.append(asked("patch", "nodes", "n1", 200, namespace=""))
    assert len(scenario.summary().harmed) == faults


def test_a_pod_that_was_preempted_right_after_a_handover(scenario):
    scenario.note(scenario.seen.pods, 2, pod("source", priority=10))
    scenario.note(scenario.seen.pods, 1, pod("victim", app="other"))
    scenario.evicted("source", 100)
    gone = pod("victim", app="other", is_leaving=True, was_preempted=True, removal_asked_at=at(110))
    scenario.note(scenario.seen.pods, 110, gone)
    (fault,) = scenario.summary().harmed
    assert "shop/victim was preempted after the eviction of shop/source" in fault


def test_everything_that_may_be_left_over(scenario):
    scenario.note(
        scenario.seen.pods,
        100,
        pod("copy", is_gated=True, mark="move", owners=(("PodMigration", "uid-move"),)),
    )
    scenario.note(
        scenario.seen.budgets, 1, Budget("shop/x-rescheduler-pdb", "b", "shop", "web", 0, True, True)
    )
    scenario.note(scenario.seen.nodes, 100, node("n1", is_cordoned=True, cordoned_by="NodeMaintenance"))
    scenario.note(
        scenario.seen.workloads, 100, WorkloadState("shop/web", "uid-web", "ReplicaSet", 1, False, ("mark",))
    )
    assert [each.partition(":")[0] for each in scenario.summary().left] == [
        "PodMigration shop/move",
        "pod shop/copy",
        "pod shop/copy",
        "pod shop/copy",
        "temporary budget shop/x-rescheduler-pdb",
        "node n1",
        "ReplicaSet shop/web",
        "ReplicaSet shop/web",
    ]
