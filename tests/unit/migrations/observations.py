"""Observations for tests: a pod of a ReplicaSet moves from `old` to `new`, and what is seen at each step."""

from datetime import UTC, datetime, timedelta

from rescheduler.api.podmigration import (
    ControllerReference,
    Handover,
    Migration,
    MigrationSpec,
    MigrationStatus,
    PodReference,
)
from rescheduler.api.well_known_names import FINALIZER, SCHEDULING_GATE
from rescheduler.cluster.node_record import NodeCondition, NodeRecord
from rescheduler.cluster.object_meta import OwnerReference
from rescheduler.cluster.pod_record import PodCondition, PodRecord, PodShape
from rescheduler.cluster.workload_record import WorkloadRecord
from rescheduler.config.policy import Policy
from rescheduler.migrations import labels_and_names
from rescheduler.migrations.observation import Observation
from rescheduler.migrations.transition_table import MigrationStep, phase_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(seconds=30)
POLICY = Policy()
OWNER = ControllerReference("apps/v1", "ReplicaSet", "web-1", "rs-uid")
CONTROLLER = OwnerReference(
    kind="ReplicaSet", name="web-1", uid="rs-uid", api_version="apps/v1", controller=True
)
US = OwnerReference(
    kind="PodMigration", name="move", uid="pm-uid", api_version="rescheduler.dev/v1alpha1", controller=True
)


FORWARD_ONLY = frozenset({MigrationStep.ADOPTING, MigrationStep.REPLACING, MigrationStep.RELEASING})
"""The steps after the source pod is gone: what was done can't be undone any more."""


def migration(step=MigrationStep.QUEUED, handover=Handover.ADOPT, *, owner=OWNER, **more):
    spec = MigrationSpec(PodReference("web-1-a", "source-uid"), "old", "new", "LoadBalancing", "because")
    begun = step not in {MigrationStep.QUEUED, MigrationStep.CHECKING}
    status = MigrationStatus(
        phase=phase_of(step),
        step=step,
        step_since=NOW,
        attempts=1,
        handover=handover if begun else None,
        target_node="new" if begun else "",
        owner=owner if begun else None,
        started_at=NOW if begun else None,
        **({"eviction_requested_at": LATER} if step is MigrationStep.EVICTING else {})
        | more.pop("status", {}),
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
    labels = {"app": "web"} | (
        labels_and_names.migration_labels(migration(), labels_and_names.MigrationLabelStatus.IN_PROGRESS)
        if marked
        else {}
    )
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
    shape = PodShape(scheduling_gates=(SCHEDULING_GATE,) if gated else ())
    return pod(
        "web-1-c", "copy-uid", node=node, ready=ready, marked=True, owners=owners, shape=shape,
        annotations={labels_and_names.ORIGINAL_POD_ANNOTATION: "source-uid"}, **more,
    )  # fmt: skip


def replica_set(**more):
    values = {
        "kind": "ReplicaSet", "api_version": "apps/v1", "key": "shop/web-1", "namespace": "shop",
        "uid": "rs-uid", "replicas": 2,
    }  # fmt: skip
    return WorkloadRecord(**(values | more))


def node(name, *, ready=True):
    return NodeRecord(name, conditions=(NodeCondition("Ready", "True" if ready else "False"),))


def observation(moving, **more):
    values = {
        "now": LATER,
        "policy": POLICY,
        "source": pod(marked=True),
        "owner": replica_set(),
        "nodes": {"old": node("old"), "new": node("new")},
    }
    return Observation(migration=moving, **(values | more))
