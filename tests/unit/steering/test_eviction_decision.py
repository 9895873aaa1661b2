"""Which evictions by other clients are held until the pod is moved, and which pass."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubevalues import parse_selector
from rescheduler.api.podmigration import (
    EVICTION,
    Handover,
    Migration,
    MigrationPhase,
    MigrationSpec,
    MigrationStatus,
    PodReference,
)
from rescheduler.api.well_known_names import (
    HANDOVER_ANNOTATION,
    RESCHEDULING_LABEL,
    SAFE_EVICTIONS_ANNOTATION,
    SAFE_EVICTIONS_DEADLINE_ANNOTATION,
)
from rescheduler.cluster.budget_record import BudgetRecord
from rescheduler.cluster.node_record import NodeCondition, NodeRecord
from rescheduler.cluster.object_meta import OwnerReference
from rescheduler.cluster.pod_record import PodCondition, PodRecord, PodShape
from rescheduler.cluster.workload_record import WorkloadRecord
from rescheduler.config.policy import Policy, SafeEvictionMode, SafeEvictions
from rescheduler.config.profiles import profiled
from rescheduler.migrations.transition_table import MigrationStep, phase_of
from rescheduler.steering.webhook.eviction_decision import (
    EvictionFacts,
    HoldEviction,
    PassEviction,
    PassReason,
    decide_eviction,
    eviction_migration_name,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DEADLINE = timedelta(minutes=10)
REPLICA_SET = OwnerReference(
    kind="ReplicaSet", name="web-1", uid="rs-uid", api_version="apps/v1", controller=True
)
DEPLOYMENT = OwnerReference(
    kind="Deployment", name="web", uid="web-uid", api_version="apps/v1", controller=True
)
VIRTUAL_MACHINE = OwnerReference(
    kind="VirtualMachineInstance", name="vm", uid="vm-uid", api_version="kubevirt.io/v1", controller=True
)
DAEMON_SET = OwnerReference(
    kind="DaemonSet", name="agent", uid="agent-uid", api_version="apps/v1", controller=True
)
BUDGET = BudgetRecord("shop/web", "shop", disruptions_allowed=0)


def pod(*, ready: bool = True, owner: OwnerReference | None = REPLICA_SET, **more: Any) -> PodRecord:
    conditions = (PodCondition("Ready", "True" if ready else "False"),)
    values: dict[str, Any] = {"labels": {"app": "web"}, "node": "n1", "phase": "Running"} | more
    return PodRecord(
        "shop/web-1-a", "shop", "pod-uid", owners=(owner,) if owner else (), conditions=conditions, **values
    )


def workload(kind: str = "ReplicaSet", *, ready: int = 1, **more: Any) -> WorkloadRecord:
    name, uid = {"ReplicaSet": ("web-1", "rs-uid"), "Deployment": ("web", "web-uid")}.get(kind, ("db", "db"))
    values: dict[str, Any] = {"replicas": 1, "ready_replicas": ready, "owners": ()}
    if kind == "ReplicaSet":
        values["owners"] = (DEPLOYMENT,)
    if kind == "Deployment":
        values |= {"update_type": "RollingUpdate", "surge": 1}
    return WorkloadRecord(
        kind=kind, api_version="apps/v1", key=f"shop/{name}", namespace="shop", uid=uid, **(values | more)
    )


def facts(*, mode: SafeEvictionMode = SafeEvictionMode.AUTO, **more: Any) -> EvictionFacts:
    node = NodeRecord("n1", conditions=(NodeCondition("Ready", "True"),))
    values: dict[str, Any] = {
        "now": NOW,
        "policy": Policy(safe_evictions=SafeEvictions(mode=mode, deadline=DEADLINE)),
        "pod": pod(),
        "node": node,
        "owner": workload(),
        "top": workload("Deployment"),
        "namespace_annotations": {},
        "requested_by": "alice",
    }
    return EvictionFacts(**(values | more))


def migration(
    step: MigrationStep = MigrationStep.STARTING, strategy: str = EVICTION, **more: Any
) -> Migration:
    name = eviction_migration_name("pod-uid") if strategy == EVICTION else "move"
    values: dict[str, Any] = {
        "key": f"shop/{name}",
        "namespace": "shop",
        "name": name,
        "uid": "pm",
        "resource_version": "1",
        "generation": 1,
        "created": NOW - timedelta(minutes=1),
        "deleted": None,
        "finalizers": (),
        "spec": MigrationSpec(PodReference("web-1-a", "pod-uid"), "n1", strategy=strategy),
        "status": MigrationStatus(phase=phase_of(step), step=step, target_node="n2"),
    }
    return Migration(**(values | more))


def passes(found: EvictionFacts) -> PassReason:
    decision = decide_eviction(found)
    assert isinstance(decision, PassEviction), decision
    return decision.reason


def held(found: EvictionFacts) -> HoldEviction:
    decision = decide_eviction(found)
    assert isinstance(decision, HoldEviction), decision
    return decision


class TestTheMove:
    def test_is_requested_make_before_break_and_names_the_client(self) -> None:
        request = held(facts()).request
        assert request is not None
        assert (request.strategy, request.handover) == (EVICTION, Handover.ADOPT)
        assert (request.pod.uid, request.source_node, request.target_node) == ("pod-uid", "n1", "")
        assert request.reason == "evicted by alice"
        assert request.deadline == NOW + DEADLINE

    def test_is_requested_once(self) -> None:
        decision = held(facts(migrations=(migration(),)))
        assert decision.request is None
        assert "being moved to n2 first: PodMigration eviction-pod-uid, copy starting" in decision.message

    def test_that_waits_for_its_turn_holds_the_eviction(self) -> None:
        """Such as most of those of a drain of a hundred pods."""
        decision = held(facts(migrations=(migration(MigrationStep.QUEUED),)))
        assert decision.request is None
        assert "waiting for its turn" in decision.message

    def test_of_another_strategy_counts_once_it_runs(self) -> None:
        assert held(facts(migrations=(migration(strategy="LoadBalancing"),))).request is None
        waiting = migration(MigrationStep.QUEUED, strategy="LoadBalancing")
        assert held(facts(migrations=(waiting,))).request is not None

    @pytest.mark.parametrize(
        "step",
        [MigrationStep.EVICTING, MigrationStep.ADOPTING, MigrationStep.REPLACING, MigrationStep.RELEASING],
    )
    @pytest.mark.parametrize("strategy", [EVICTION, "Manual"])
    def test_that_hands_over_lets_every_eviction_pass(self, step: MigrationStep, strategy: str) -> None:
        assert passes(facts(migrations=(migration(step, strategy),))) is PassReason.HANDED_OVER

    def test_that_failed_lets_the_eviction_pass(self) -> None:
        status = MigrationStatus(phase=MigrationPhase.FAILED, step="Failed", message="no quota")
        decision = decide_eviction(facts(migrations=(migration(status=status),)))
        assert decision == PassEviction(
            PassReason.MOVE_FAILED, "PodMigration eviction-pod-uid failed: no quota"
        )


class TestPassing:
    @pytest.mark.parametrize(
        ("more", "reason"),
        [
            pytest.param({"pod": pod(ready=False)}, PassReason.NOT_SERVING, id="not ready"),
            pytest.param({"pod": pod(deleted_s=1)}, PassReason.NOT_SERVING, id="terminating"),
            pytest.param({"pod": pod(phase="Failed")}, PassReason.NOT_SERVING, id="failed"),
            pytest.param({"pod": pod(node="")}, PassReason.NOT_SERVING, id="without a node"),
            pytest.param({"node": None}, PassReason.NOT_SERVING, id="on a node that is gone"),
            pytest.param({"node": NodeRecord("n1")}, PassReason.NOT_SERVING, id="on a lost node"),
            pytest.param(
                {"pod": pod(labels={RESCHEDULING_LABEL: "disabled"})}, PassReason.PROTECTED, id="opted out"
            ),
            pytest.param(
                {"pod": pod(shape=PodShape(priority_class="system-node-critical"))},
                PassReason.PROTECTED,
                id="system pod",
            ),
            pytest.param(
                {"policy": Policy(excluded_namespaces=("shop",))},
                PassReason.PROTECTED,
                id="excluded namespace",
            ),
            pytest.param(
                {"pod": pod(labels={"app.kubernetes.io/name": "rescheduler"})},
                PassReason.PROTECTED,
                id="rescheduler's own pod",
            ),
            pytest.param({"pod": pod(owner=DAEMON_SET)}, PassReason.PROTECTED, id="of a DaemonSet"),
            pytest.param(
                {
                    "pod": pod(owner=None, annotations={"kubernetes.io/config.mirror": "x"}),
                    "owner": None,
                    "top": None,
                },
                PassReason.PROTECTED,
                id="static",
            ),
            pytest.param(
                {"pod": pod(shape=PodShape(resource_claims=("gpu",)))},
                PassReason.PROTECTED,
                id="with a device",
            ),
            pytest.param(
                {"pod": pod(shape=PodShape(scheduler_name="other"))},
                PassReason.PROTECTED,
                id="of an unknown scheduler",
            ),
            pytest.param(
                {"top": workload("Deployment", deleted_s=1)},
                PassReason.NOT_SERVING,
                id="its workload is being deleted",
            ),
            pytest.param(
                {"unavailable": "paused"}, PassReason.UNAVAILABLE, id="paused, halted or leaderless"
            ),
            pytest.param(
                {"top": workload("Deployment", update_type="Recreate", surge=0)},
                PassReason.ONLY_EVICTABLE,
                id="Recreate",
            ),
            pytest.param(
                {"top": workload("Deployment", annotations={HANDOVER_ANNOTATION: "Evict"})},
                PassReason.ONLY_EVICTABLE,
                id="its owner wants Evict",
            ),
            pytest.param({"top": workload()}, PassReason.ONLY_EVICTABLE, id="of an unknown Deployment"),
            pytest.param(
                {"pod": pod(owner=None), "owner": None, "top": None}, PassReason.ONLY_EVICTABLE, id="bare"
            ),
            pytest.param(
                {"pod": pod(owner=VIRTUAL_MACHINE), "owner": None, "top": None, "budgets": (BUDGET,)},
                PassReason.ONLY_EVICTABLE,
                id="of a virtual machine, which KubeVirt moves when it is evicted",
            ),
        ],
    )
    def test_a_pod(self, more: dict[str, Any], reason: PassReason) -> None:
        assert passes(facts(**more)) is reason

    @pytest.mark.parametrize(
        "labels",
        [
            pytest.param({"rescheduling": "off"}, id="opted out"),
            pytest.param(None, id="labels not known"),
        ],
    )
    def test_a_pod_of_a_namespace_that_is_not_selected(self, labels: dict[str, str] | None) -> None:
        policy = Policy(namespace_selector=parse_selector("rescheduling!=off"))
        assert passes(facts(policy=policy, namespace_labels=labels)) is PassReason.PROTECTED
        assert held(facts(policy=policy, namespace_labels={}))

    def test_a_pod_that_no_profile_selects_or_its_own_profile_excludes(self) -> None:
        first = Policy(namespace_selector=parse_selector("team=a"))
        second = Policy(
            namespace_selector=parse_selector("team=b"), excluded_pod_selector=parse_selector("app=web")
        )
        policy = profiled(first, [second])
        labels = {"app": "web"}
        assert held(facts(policy=policy, pod=pod(labels=labels), namespace_labels={"team": "a"}))
        for team in ("b", "c"):
            found = facts(policy=policy, pod=pod(labels=labels), namespace_labels={"team": team})
            assert passes(found) is PassReason.PROTECTED

    def test_in_auto_where_enough_others_are_ready(self) -> None:
        enough = workload(replicas=2, ready=3)
        assert passes(facts(owner=enough)) is PassReason.NOT_NEEDED
        assert held(facts(owner=enough, budgets=(BUDGET,))).request is not None
        assert held(facts(owner=enough, mode=SafeEvictionMode.ALL)).request is not None

    def test_that_is_not_moved_in_any_case_is_not_said_to_lack_a_move(self) -> None:
        """While rescheduler is paused, clients are warned only of pods that would be moved."""
        enough, recreated = (
            workload(replicas=2, ready=3),
            workload("Deployment", update_type="Recreate", surge=0),
        )
        assert passes(facts(unavailable="paused", owner=enough)) is PassReason.NOT_NEEDED
        assert passes(facts(unavailable="paused", top=recreated)) is PassReason.ONLY_EVICTABLE

    def test_in_auto_counts_the_pods_where_the_status_is_behind(self) -> None:
        """The controller stands still: its status counts a pod that is gone."""
        enough = workload(replicas=2, ready=3)
        assert passes(facts(owner=enough, pods_ready=3)) is PassReason.NOT_NEEDED
        assert held(facts(owner=enough, pods_ready=2)).request is not None
        assert held(facts(owner=workload(replicas=2, ready=2), pods_ready=3)).request is not None

    def test_in_all_a_bare_pod_is_copied(self) -> None:
        bare = facts(pod=pod(owner=None), owner=None, top=None, mode=SafeEvictionMode.ALL)
        request = held(bare).request
        assert request is not None
        assert request.handover is Handover.COPY


class TestSetsThatCanOnlyBeEvicted:
    OWNER = OwnerReference(kind="StatefulSet", name="db", uid="db", api_version="apps/v1", controller=True)

    def of_set(self, ready: int, **more: Any) -> EvictionFacts:
        record = workload("StatefulSet", replicas=3, ready=ready)
        return facts(pod=pod(owner=self.OWNER), owner=record, top=record, **more)

    def test_go_one_after_the_other(self) -> None:
        assert passes(self.of_set(3)) is PassReason.ONLY_EVICTABLE
        assert held(self.of_set(2)).request is None
        assert "are ready (2 of 3)" in held(self.of_set(3, pods_ready=2)).message
        assert held(self.of_set(3, siblings_evicted=1)).request is None

    def test_wait_until_terminating_ones_are_replaced(self) -> None:
        """A pod of a StatefulSet that terminates slowly counts as ready until its containers have ended."""
        assert (
            "until terminating pods of StatefulSet db are replaced (1)"
            in held(self.of_set(3, pods_terminating=1)).message
        )

    def test_take_turns_on_which_replicas_of_the_webhook_agree(self) -> None:
        """Neither replica may see yet what the other lets pass, on whatever nodes the pods are."""
        decision = decide_eviction(self.of_set(3))
        assert isinstance(decision, PassEviction)
        assert decision.without_turn is not None
        assert (
            "waits for its turn: another pod of StatefulSet db was just let go"
            in decision.without_turn.message
        )

    def test_are_left_to_their_budget(self) -> None:
        for ready in (2, 3):
            decision = decide_eviction(self.of_set(ready, budgets=(BUDGET,)))
            assert isinstance(decision, PassEviction)
            assert (decision.reason, decision.without_turn) == (PassReason.ONLY_EVICTABLE, None)

    def test_need_no_turn_if_there_is_only_one(self) -> None:
        record = workload("StatefulSet", replicas=1, ready=1)
        decision = decide_eviction(facts(pod=pod(owner=self.OWNER), owner=record, top=record))
        assert isinstance(decision, PassEviction)
        assert decision.without_turn is None

    def test_take_turns_as_spare_replicas_too(self) -> None:
        """Of two ready pods where one is wanted, two replicas of the webhook must not let both go."""
        decision = decide_eviction(facts(owner=workload(replicas=1, ready=2)))
        assert isinstance(decision, PassEviction)
        assert decision.reason is PassReason.NOT_NEEDED
        assert decision.without_turn is not None

    def test_wait_no_longer_than_the_deadline(self) -> None:
        assert passes(self.of_set(2, first_held=NOW - DEADLINE)) is PassReason.DEADLINE


class TestTheDeadlineOfADrain:
    """Of a client that evicts pod after pod: each eviction is the first of its pod."""

    def test_is_that_of_its_first_eviction(self) -> None:
        began = NOW - timedelta(minutes=4)
        request = held(facts(drained_since=began)).request
        assert request is not None
        assert request.deadline == began + DEADLINE
        assert passes(facts(drained_since=NOW - DEADLINE)) is PassReason.DEADLINE

    def test_is_not_shortened_by_owners_of_pods(self) -> None:
        shortened = facts(
            drained_since=NOW - timedelta(minutes=4),
            namespace_annotations={SAFE_EVICTIONS_DEADLINE_ANNOTATION: "2m"},
        )
        request = held(shortened).request
        assert request is not None
        assert request.deadline == NOW + timedelta(minutes=2), "only that of this pod"


class TestAnnotations:
    def test_of_the_workload_come_before_those_of_the_namespace(self) -> None:
        top = workload("Deployment", annotations={SAFE_EVICTIONS_ANNOTATION: "off"})
        off = facts(top=top, namespace_annotations={SAFE_EVICTIONS_ANNOTATION: "auto"})
        assert passes(off) is PassReason.OFF

    def test_turn_it_on_where_only_annotated_pods_take_part(self) -> None:
        annotated = facts(mode=SafeEvictionMode.ANNOTATED)
        assert passes(annotated) is PassReason.OFF
        assert held(replace(annotated, namespace_annotations={SAFE_EVICTIONS_ANNOTATION: "auto"}))

    def test_turn_nothing_on_that_the_operator_has_turned_off(self) -> None:
        off = facts(mode=SafeEvictionMode.OFF, namespace_annotations={SAFE_EVICTIONS_ANNOTATION: "all"})
        assert passes(off) is PassReason.OFF

    @pytest.mark.parametrize(("wanted", "minutes"), [("2m", 2), ("1000h", 10), ("soon", 10), ("-5m", 0)])
    def test_shorten_the_deadline_only(self, wanted: str, minutes: int) -> None:
        """A tenant can't keep a node from being drained."""
        shortened = facts(namespace_annotations={SAFE_EVICTIONS_DEADLINE_ANNOTATION: wanted})
        if not minutes:
            assert passes(shortened) is PassReason.DEADLINE
            return
        request = held(shortened).request
        assert request is not None
        assert request.deadline == NOW + timedelta(minutes=minutes)


_STEPS = st.sampled_from(list(MigrationStep))
_SINCE = st.timedeltas(timedelta(), timedelta(hours=1))
_TEXT = st.sampled_from(["auto", "all", "off", "", "1h", "999h", "x" * 5000])


@given(
    step=_STEPS,
    since=_SINCE,
    mode=st.sampled_from(list(SafeEvictionMode)),
    annotation=_TEXT,
    deadline=_TEXT,
    ready=st.integers(0, 5),
    replicas=st.integers(0, 5),
    kind=st.sampled_from(["ReplicaSet", "StatefulSet"]),
    is_recorded_again=st.booleans(),
    drained=st.none() | _SINCE,
)
def test_no_eviction_is_held_beyond_the_deadline(
    *,
    step: MigrationStep,
    since: timedelta,
    mode: SafeEvictionMode,
    annotation: str,
    deadline: str,
    ready: int,
    replicas: int,
    kind: str,
    is_recorded_again: bool,
    drained: timedelta | None,
) -> None:
    """Whatever workloads, annotations and PodMigrations say; also if one is deleted and recorded again."""
    owner = workload(kind, replicas=replicas, ready=ready)
    top = workload("Deployment") if kind == "ReplicaSet" else owner
    created = NOW if is_recorded_again else NOW - since
    found = facts(
        mode=mode,
        owner=owner,
        top=top,
        namespace_annotations={
            SAFE_EVICTIONS_ANNOTATION: annotation,
            SAFE_EVICTIONS_DEADLINE_ANNOTATION: deadline,
        },
        migrations=(migration(step, created=created),),
        first_held=NOW - since,
        drained_since=drained and NOW - drained,
    )
    if isinstance(decide_eviction(found), HoldEviction):
        assert max(since, drained or since) < DEADLINE
