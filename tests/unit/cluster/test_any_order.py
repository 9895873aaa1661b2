"""Any sequence of changes gives the snapshot that the records left at its end give."""

import dataclasses
from typing import Any

import msgspec
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rescheduler.api.well_known_names import AVOIDED_NODES_ANNOTATION
from rescheduler.cluster.budget_record import BudgetRecord
from rescheduler.cluster.cluster_state import ClusterState
from rescheduler.cluster.node_record import NodeCondition, NodeRecord
from rescheduler.cluster.object_meta import OwnerReference
from rescheduler.cluster.pod_constraints import (
    Affinity,
    HostPort,
    PodAffinity,
    PodAffinityTerm,
    SchedulingConstraints,
    encode_avoided_nodes,
    without_exclusions,
)
from rescheduler.cluster.pod_record import CLAIM_VOLUME, PodCondition, PodRecord, PodShape, PodVolume
from rescheduler.cluster.resource_amounts import Resources
from rescheduler.cluster.snapshot import CPU, MEMORY, PODS, Snapshot
from rescheduler.cluster.storage_records import ClaimRecord, VolumeRecord
from rescheduler.cluster.usage_readings import UsageReading
from rescheduler.cluster.workload_record import WorkloadRecord
from tests.objects import with_exclusions

NODES = ["n1", "n2", "n3", "n4"]
PODS_KEYS = ["a/p1", "a/p2", "a/p3", "b/p1", "b/p2", "c/p9"]
EXTENDED: list[tuple[tuple[str, int], ...]] = [
    (),
    (),
    (("example.com/a", 1),),
    (("example.com/b", 2), ("example.com/c", 0)),
]

amounts = st.builds(
    Resources,
    cpu_millis=st.sampled_from([0, 100, 2_500]),
    memory_bytes=st.sampled_from([0, 7, 2**40]),
    ephemeral_bytes=st.sampled_from([0, 5]),
    extended=st.sampled_from(EXTENDED),
)
nodes = st.builds(
    NodeRecord,
    name=st.sampled_from(NODES),
    uid=st.sampled_from(["u1", "u2"]),
    unschedulable=st.booleans(),
    allocatable=amounts,
    conditions=st.sampled_from([(), (NodeCondition("Ready", "True"),), (NodeCondition("Ready", "False"),)]),
)
LABELS = [{}, {"app": "web"}, {"app": "web", "tier": "x"}]
APART = Affinity(pod_anti_affinity=PodAffinity(required=(PodAffinityTerm("kubernetes.io/hostname"),)))
shapes = st.builds(
    PodShape,
    constraints=st.sampled_from([SchedulingConstraints(), SchedulingConstraints(host_ports=(HostPort(80),))]),
    requests=amounts,
    priority=st.sampled_from([0, -5, 10**9]),
)
OWNERS = [
    (),
    (OwnerReference("ReplicaSet", "web-1", "rs-1", "apps/v1", controller=True),),
    (OwnerReference("ReplicaSet", "web-2", "rs-2", "apps/v1", controller=True),),
    (OwnerReference("StatefulSet", "db", "sts", "apps/v1", controller=True),),
    (OwnerReference("PodMigration", "m", "mig", "rescheduler.dev/v1alpha1"),),
]
STEERED: list[tuple[Affinity, dict[str, str]]] = [
    (Affinity(), {}),
    (APART, {}),
    (with_exclusions(APART, ["n1"]), {AVOIDED_NODES_ANNOTATION: encode_avoided_nodes(["n1"])}),
    (
        with_exclusions(Affinity(), ["n1", "n2"]),
        {AVOIDED_NODES_ANNOTATION: encode_avoided_nodes(["n1", "n2"])},
    ),
]


@st.composite
def pods(draw: st.DrawFn) -> PodRecord:
    key = draw(st.sampled_from(PODS_KEYS))
    affinity, marks = draw(st.sampled_from(STEERED))
    shape = draw(shapes)
    return PodRecord(
        key=key,
        namespace=key.partition("/")[0],
        uid=draw(st.sampled_from(["1", "2"])),
        created_s=draw(st.sampled_from([0, 100])),
        deleted_s=draw(st.sampled_from([None, 500])),
        # Equal labels are sometimes the same object, sometimes another.
        labels=draw(st.sampled_from([*LABELS, dict(LABELS[1])])),
        annotations=marks,
        owners=draw(st.sampled_from(OWNERS)),
        node=draw(st.sampled_from(["", *NODES])),
        shape=shape,
        affinity=affinity,
        volumes=draw(st.sampled_from([(), (PodVolume(CLAIM_VOLUME, "data"),)])),
        requests=draw(st.one_of(st.just(shape.requests), amounts)),
        phase=draw(st.sampled_from(["Running", "Running", "Pending", "Succeeded", "Failed"])),
        conditions=draw(st.sampled_from([(), (PodCondition("Ready", "True"),)])),
    )


@st.composite
def workloads(draw: st.DrawFn) -> WorkloadRecord:
    kind, name, uid = draw(
        st.sampled_from(
            [
                ("ReplicaSet", "web-1", "rs-1"),
                ("ReplicaSet", "web-2", "rs-2"),
                ("Deployment", "web", "dep"),
                ("StatefulSet", "db", "sts"),
            ]
        )
    )
    above = OwnerReference("Deployment", "web", "dep", "apps/v1", controller=True)
    return WorkloadRecord(
        kind=kind,
        api_version="apps/v1",
        key=f"a/{name}",
        namespace="a",
        uid=uid,
        owners=(above,) if kind == "ReplicaSet" and draw(st.booleans()) else (),
        replicas=draw(st.integers(0, 3)),
    )


usages = st.dictionaries(
    st.sampled_from(PODS_KEYS),
    st.builds(UsageReading, st.integers(0, 5_000), st.integers(0, 10**9), st.sampled_from([50.0, 200.0])),
)
others = st.sampled_from(
    [
        BudgetRecord(key="a/b1", namespace="a"),
        BudgetRecord(key="a/b1", namespace="a", disruptions_allowed=3),
        BudgetRecord(key="b/b2", namespace="b"),
        ClaimRecord(key="a/data", namespace="a"),
        ClaimRecord(key="a/data", namespace="a", volume="v"),
        VolumeRecord(name="v"),
    ]
)


class Changes(RuleBasedStateMachine):
    """A state that takes single changes, beside plain dictionaries of what it should hold."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ClusterState()
        self.pods: dict[str, PodRecord] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.workloads: dict[tuple[str, str], WorkloadRecord] = {}
        self.others: dict[tuple[type, str], Any] = {}
        self.usage: dict[str, UsageReading] = {}
        self.watched = False
        self.earlier: list[tuple[Snapshot, Any]] = []

    @initialize(watched=st.booleans())
    def frozen_now_and_then(self, watched: bool) -> None:
        self.watched = watched

    @rule(pod=pods())
    def a_pod_comes_or_changes(self, pod: PodRecord) -> None:
        self.pods[pod.key] = pod
        self.state.apply_pod(pod)

    @rule(key=st.sampled_from(PODS_KEYS), status=st.sampled_from(["Running", "Failed"]))
    def only_the_status_of_a_pod_changes(self, key: str, status: str) -> None:
        if key in self.pods:
            self.a_pod_comes_or_changes(msgspec.structs.replace(self.pods[key], phase=status))

    @rule(key=st.sampled_from(PODS_KEYS))
    def a_pod_goes(self, key: str) -> None:
        self.pods.pop(key, None)
        self.state.remove_pod(key)

    @rule(node=nodes)
    def a_node_comes_or_changes(self, node: NodeRecord) -> None:
        self.nodes[node.name] = node
        self.state.apply_node(node)

    @rule(name=st.sampled_from(NODES))
    def a_node_goes(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.state.remove_node(name)

    @rule(workload=workloads())
    def a_workload_comes_or_changes(self, workload: WorkloadRecord) -> None:
        self.workloads[workload.kind, workload.key] = workload
        self.state.apply_workload(workload)

    @rule(
        which=st.sampled_from([("ReplicaSet", "a/web-1"), ("Deployment", "a/web"), ("StatefulSet", "a/db")])
    )
    def a_workload_goes(self, which: tuple[str, str]) -> None:
        self.workloads.pop(which, None)
        self.state.remove_workload(*which)

    @rule(record=others)
    def something_else_comes_or_changes(self, record: Any) -> None:
        self.others[type(record), record.key] = record
        _apply_other(self.state, record)

    @rule(record=others)
    def something_else_goes(self, record: Any) -> None:
        self.others.pop((type(record), record.key), None)
        if isinstance(record, BudgetRecord):
            self.state.remove_budget(record.key)
        else:
            self.state.remove_storage(type(record), record.key)

    @rule(usage=usages)
    def usage_is_measured(self, usage: dict[str, UsageReading]) -> None:
        self.usage = usage
        self.state.apply_usage(usage)

    @rule()
    def a_snapshot_is_frozen(self) -> None:
        snapshot = self.state.freeze(1.0)
        self.earlier.append((snapshot, contents(snapshot)))
        assert contents(snapshot) == contents(self.from_scratch())
        self.check_numbers(snapshot)
        self.check_classes(snapshot)

    def from_scratch(self) -> Snapshot:
        """Build it in another order than things happened: backwards, pods first."""
        state = ClusterState()
        state.apply_usage(self.usage)
        for pod in reversed(self.pods.values()):
            state.apply_pod(pod)
        for workload in reversed(self.workloads.values()):
            state.apply_workload(workload)
        for record in reversed(self.others.values()):
            _apply_other(state, record)
        for node in reversed(self.nodes.values()):
            state.apply_node(node)
        return state.freeze(1.0)

    def check_numbers(self, snapshot: Snapshot) -> None:
        """Against plain sums over the records."""
        names = sorted(self.nodes)
        assert [node.name for node in snapshot.nodes.records] == names
        assert [pod.key for pod in snapshot.pods.records] == sorted(self.pods)
        for row, name in enumerate(names):
            there = [pod for pod in self.pods.values() if _counts_on(pod, name)]
            requested, load = snapshot.nodes.requested[row], snapshot.nodes.load[row]
            assert requested[CPU] == sum(pod.requests.cpu_millis for pod in there)
            assert requested[PODS] == len(there)
            assert load[MEMORY] == sum(self.memory_of(pod) for pod in there)
            for column, resource in enumerate(snapshot.resources[4:], 4):
                assert requested[column] == sum(dict(pod.requests.extended).get(resource, 0) for pod in there)
                assert snapshot.nodes.allocatable[row, column] == dict(
                    self.nodes[name].allocatable.extended
                ).get(resource, 0)
            on = [snapshot.pods.records[pod].key for pod in snapshot.pods.on(row)]
            assert on == sorted(pod.key for pod in there)

    def memory_of(self, pod: PodRecord) -> int:
        used = self.usage.get(pod.key)
        return pod.requests.memory_bytes if used is None or used.at_s < pod.created_s else used.memory_bytes

    def check_classes(self, snapshot: Snapshot) -> None:
        """Pods are of one class if, and only if, the scheduler could not tell them apart."""
        pods, numbers = snapshot.pods.records, snapshot.pods.pod_class.tolist()
        for one, first in zip(pods, numbers, strict=True):
            found = snapshot.classes[first]
            assert (found.namespace, found.labels, found.constraints, found.volumes) == _own_parts(one)[:4]
            assert found.asks[CPU] == one.shape.requests.cpu_millis
            for other, second in zip(pods, numbers, strict=True):
                assert (first == second) is (_own_parts(one) == _own_parts(other))

    @precondition(lambda self: self.watched)
    @invariant()
    def looked_at(self) -> None:
        self.a_snapshot_is_frozen()

    def teardown(self) -> None:
        self.a_snapshot_is_frozen()
        assert all(contents(snapshot) == as_it_was for snapshot, as_it_was in self.earlier)


def contents(table: Any) -> Any:
    """All of a snapshot as plain values that compare by equality, in order."""
    if dataclasses.is_dataclass(table):
        return {each.name: contents(getattr(table, each.name)) for each in dataclasses.fields(table)}
    if isinstance(table, np.ndarray):
        return str(table.dtype), table.tolist(), table.flags.writeable
    if isinstance(table, msgspec.Struct) and type(table).__name__ == "PodClass":
        return {name: contents(getattr(table, name)) for name in table.__struct_fields__}
    if isinstance(table, tuple):
        return tuple(map(contents, table))
    return list(table.items()) if hasattr(table, "items") else table


def _apply_other(state: ClusterState, record: Any) -> None:
    if isinstance(record, BudgetRecord):
        state.apply_budget(record)
    else:
        state.apply_storage(record)


def _own_parts(pod: PodRecord) -> tuple[Any, ...]:
    affinity = without_exclusions(pod.affinity, pod.annotations)
    return pod.namespace, pod.labels, pod.constraints, pod.volumes, affinity, pod.shape.requests


def _counts_on(pod: PodRecord, node: str) -> bool:
    return pod.node == node and pod.phase not in {"Succeeded", "Failed"}


Changes.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestChanges = Changes.TestCase
