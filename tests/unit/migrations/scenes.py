"""Scenes for tests: a pod of a ReplicaSet that moves from `old` to `new`, and what may be seen on the way."""

from datetime import UTC, datetime, timedelta

from rescheduler.config.policy import Policy
from rescheduler.migrations import marks
from rescheduler.migrations.copies import GATE
from rescheduler.migrations.scene import Scene
from rescheduler.migrations.steps import Step, phase_of
from rescheduler.model.metadata import Owner
from rescheduler.model.migrations import (
    FINALIZER,
    Migration,
    MigrationSpec,
    MigrationStatus,
    OwnerReference,
    PodReference,
)
from rescheduler.model.nodes import NodeCondition, NodeRecord
from rescheduler.model.plan import Handover
from rescheduler.model.pods import PodCondition, PodRecord, PodShape
from rescheduler.model.workloads import WorkloadRecord

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(seconds=30)
POLICY = Policy()
OWNER = OwnerReference("apps/v1", "ReplicaSet", "web-1", "rs-uid")
CONTROLLER = Owner(kind="ReplicaSet", name="web-1", uid="rs-uid", api_version="apps/v1", controller=True)
US = Owner(
    kind="PodMigration", name="move", uid="pm-uid", api_version="rescheduler.dev/v1alpha1", controller=True
)


def migration(step=Step.QUEUED, handover=Handover.ADOPT, *, owner=OWNER, **more):
    spec = MigrationSpec(PodReference("web-1-a", "source-uid"), "old", "new", "LoadBalancing", "because")
    begun = step not in {Step.QUEUED, Step.CHECKING}
    status = MigrationStatus(
        phase=phase_of(step),
        step=step,
        step_since=NOW,
        attempts=1,
        handover=handover if begun else None,
        target_node="new" if begun else "",
        owner=owner if begun else None,
        started_at=NOW if begun else None,
        **({"eviction_requested_at": LATER} if step is Step.EVICTING else {}) | more.pop("status", {}),
    )
    values = {
        "key": "shop/move",
        "namespace": "shop",
        "name": "move",
        "uid": "pm-uid",
        "resource_version": "5",
        "generation": 1,
        "created": NOW - timedelta(minutes=1),
        "deleted": None,
        "finalizers": (FINALIZER,),
        "spec": spec,
        "status": status,
    }
    return Migration(**(values | more))


def pod(
    name="web-1-a", uid="source-uid", *, node="old", ready=True, marked=False, owners=(CONTROLLER,), **more
):
    conditions = [PodCondition("Ready", "True" if ready else "False", since_s=int(NOW.timestamp()))]
    labels = {"app": "web"} | (marks.labels(migration(), marks.MarkStatus.IN_PROGRESS) if marked else {})
    values = {
        "key": f"shop/{name}",
        "namespace": "shop",
        "uid": uid,
        "resource_version": "7",
        "labels": labels,
        "owners": tuple(owners),
        "node": node,
        "phase": "Running",
        "conditions": tuple(conditions),
    }
    return PodRecord(**(values | more))


def copy(*, node="new", ready=True, gated=False, owners=(US,), **more):
    shape = PodShape(scheduling_gates=(GATE,) if gated else ())
    return pod(
        "web-1-c", "copy-uid", node=node, ready=ready, marked=True, owners=owners, shape=shape,
        marks={marks.ORIGINAL_POD: "source-uid"}, **more,
    )  # fmt: skip


def replica_set(**more):
    values = {
        "kind": "ReplicaSet", "api_version": "apps/v1", "key": "shop/web-1", "namespace": "shop",
        "uid": "rs-uid", "replicas": 2,
    }  # fmt: skip
    return WorkloadRecord(**(values | more))


def node(name, *, ready=True):
    return NodeRecord(name, conditions=(NodeCondition("Ready", "True" if ready else "False"),))


def scene(moving, **more):
    values = {
        "now": LATER,
        "policy": POLICY,
        "source": pod(marked=True),
        "owner": replica_set(),
        "nodes": {"old": node("old"), "new": node("new")},
    }
    return Scene(migration=moving, **(values | more))
