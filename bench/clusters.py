"""Big clusters as records, made quickly: what an informer would hold of a busy cluster of that size.

As in real ones: three zones, some nodes with devices that others must keep off, daemons on every node, a few
huge and many small Deployments, StatefulSets with volumes in one zone, Jobs; a part of the workloads spread
over zones, keep apart from each other, or stay together. No node is asked for more than it has, and every
pod is where its own rules allow it.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rescheduler.cluster.budget_record import BudgetRecord
from rescheduler.cluster.cluster_state import ClusterState
from rescheduler.cluster.node_record import NodeCondition, NodeRecord, Taint
from rescheduler.cluster.object_meta import OwnerReference
from rescheduler.cluster.pod_constraints import (
    Affinity,
    LabelSelector,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    SchedulingConstraints,
    Toleration,
    TopologySpreadConstraint,
)
from rescheduler.cluster.pod_record import (
    CLAIM_VOLUME,
    EMPTY_DIR_VOLUME,
    Container,
    ContainerStateRunning,
    ContainerStatus,
    PodCondition,
    PodRecord,
    PodShape,
    PodVolume,
)
from rescheduler.cluster.resource_amounts import Resources
from rescheduler.cluster.storage_decoders import StorageRecord
from rescheduler.cluster.storage_records import ClaimRecord, ClaimReference, StorageClassRecord, VolumeRecord
from rescheduler.cluster.usage_readings import UsageReading
from rescheduler.cluster.workload_record import WorkloadRecord

__all__ = ["NOW_S", "BigCluster", "big_cluster", "usage_of"]

NOW_S = 1_780_000_000
GIB = 2**30
MIB = 2**20
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
DAEMONS = 6
"""Pods of DaemonSets on every node."""

_ZONES = ("eu-1a", "eu-1b", "eu-1c")
_SIZES = ((16, 64), (32, 128), (64, 256))
_REPLICAS = (2, 2, 2, 3, 3, 3, 5, 5, 10, 10, 20, 40, 80, 150, 300)
_CPU_MILLIS = (50, 100, 100, 200, 250, 500, 500, 1000, 2000)
_MEMORY = (64 * MIB, 128 * MIB, 256 * MIB, 512 * MIB, GIB, 2 * GIB, 4 * GIB)
_CLASS = "fast"
_DRIVER = "disks.example.com"
_USUAL = (
    Toleration("node.kubernetes.io/not-ready", "Exists", "", "NoExecute", 300),
    Toleration("node.kubernetes.io/unreachable", "Exists", "", "NoExecute", 300),
)
_READY = (
    PodCondition("PodReadyToStartContainers", "True"),
    PodCondition("Initialized", "True"),
    PodCondition("Ready", "True", since_s=NOW_S - 86_000),
    PodCondition("ContainersReady", "True"),
    PodCondition("PodScheduled", "True"),
)


@dataclass(slots=True)
class BigCluster:
    nodes: list[NodeRecord] = field(default_factory=list)
    pods: list[PodRecord] = field(default_factory=list)
    workloads: list[WorkloadRecord] = field(default_factory=list)
    budgets: list[BudgetRecord] = field(default_factory=list)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    storage: list[StorageRecord] = field(default_factory=list)

    def state(self) -> ClusterState:
        """Everything applied, one by one."""
        state = ClusterState()
        for node in self.nodes:
            state.apply_node(node)
        for workload in self.workloads:
            state.apply_workload(workload)
        for budget in self.budgets:
            state.apply_budget(budget)
        for name, labels in self.namespaces.items():
            state.apply_namespace(name, labels)
        for record in self.storage:
            state.apply_storage(record)
        for pod in self.pods:
            state.apply_pod(pod)
        return state


def big_cluster(
    nodes: int = 5_000, pods: int = 150_000, *, namespaces: int = 200, seed: int = 1
) -> BigCluster:
    """The same for the same numbers."""
    return _Maker(nodes, pods, namespaces, random.Random(seed)).cluster


def usage_of(cluster: BigCluster, *, seed: int = 1) -> dict[str, UsageReading]:
    """Measured: mostly less than asked for."""
    rng = random.Random(seed)
    return {
        pod.key: UsageReading(
            int(pod.requests.cpu_millis * rng.uniform(0.1, 1.2)),
            int(pod.requests.memory_bytes * rng.uniform(0.4, 1.1)),
            float(NOW_S),
        )
        for pod in cluster.pods
    }


class _Maker:
    def __init__(self, nodes: int, pods: int, namespaces: int, rng: random.Random) -> None:
        self.rng = rng
        self.cluster = BigCluster()
        self.wanted = pods
        self.namespaces = [f"team-{number:03}" for number in range(namespaces)]
        for name in (*self.namespaces, "kube-system"):
            self.cluster.namespaces[name] = {"kubernetes.io/metadata.name": name, "tier": name[:4]}
        self.cluster.storage.append(
            StorageClassRecord(name=_CLASS, provisioner=_DRIVER, waits_for_pod=True, is_default=True)
        )
        self.cluster.nodes = [self.node(number) for number in range(nodes)]
        self.free_cpu = [node.allocatable.cpu_millis for node in self.cluster.nodes]
        self.free_memory = [node.allocatable.memory_bytes for node in self.cluster.nodes]
        self.free_pods = [node.allocatable.pods for node in self.cluster.nodes]
        self.ordinary = [row for row, node in enumerate(self.cluster.nodes) if not node.taints]
        self.with_gpu = [row for row, node in enumerate(self.cluster.nodes) if node.taints]
        self.fill()
        self.cluster.pods.sort(key=lambda pod: pod.key)

    def node(self, number: int) -> NodeRecord:
        cores, gib = self.rng.choice(_SIZES)
        has_gpu = self.rng.random() < 0.03
        name = f"node-{number:05}"
        labels = {
            "kubernetes.io/arch": "amd64",
            HOSTNAME: name,
            "node.kubernetes.io/instance-type": f"m{cores}",
            "topology.kubernetes.io/region": "eu-1",
            ZONE: _ZONES[number % len(_ZONES)],
        }
        amounts = Resources(
            cores * 1000 - 200, (gib - 2) * GIB, 200 * GIB, 110, ((GPU, 8),) if has_gpu else ()
        )
        return NodeRecord(
            name=name,
            uid=_uid(self.rng),
            resource_version=str(self.rng.randrange(10**9)),
            created_s=NOW_S - 10_000_000,
            labels=labels,
            taints=(Taint(GPU, "present", "NoSchedule"),) if has_gpu else (),
            allocatable=amounts,
            capacity=amounts,
            conditions=(NodeCondition("Ready", "True", "KubeletReady", "kubelet is ready", 1, NOW_S - 60),),
        )

    def fill(self) -> None:
        for number in range(DAEMONS):
            if len(self.cluster.pods) + len(self.cluster.nodes) <= self.wanted // 2:
                self.daemon_set(number)
        number = 0
        while (room := self.wanted - len(self.cluster.pods)) > 0:
            replicas = min(self.rng.choice(_REPLICAS), room)
            draw = self.rng.random()
            if draw < 0.05 and self.with_gpu:
                self.deployment(number, min(replicas, 3), on_gpu=True)
            elif draw < 0.80:
                self.deployment(number, replicas)
            elif draw < 0.94:
                self.stateful_set(number, min(replicas, 20))
            else:
                self.job(number, min(replicas, 5))
            number += 1

    def daemon_set(self, number: int) -> None:
        template = _Template(self, f"daemon-{number}", "kube-system", "DaemonSet", cpu_millis=50)
        template.tolerations = (Toleration("", "Exists"),)
        template.finish(len(self.cluster.nodes))
        for row, node in enumerate(self.cluster.nodes):
            field = NodeSelectorRequirement("metadata.name", "In", (node.name,))
            pinned = NodeSelector((NodeSelectorTerm(match_fields=(field,)),))
            template.pod(f"{template.app}-{_suffix(row)}", row, affinity=Affinity(NodeAffinity(pinned)))

    def deployment(self, number: int, replicas: int, *, on_gpu: bool = False) -> None:
        template = _Template(self, f"app-{number}", self.rng.choice(self.namespaces), "ReplicaSet")
        me = LabelSelector((("app", template.app),))
        draw = self.rng.random()
        if on_gpu:
            template.extended = ((GPU, 1),)
            template.tolerations = (Toleration(GPU, "Exists"), *_USUAL)
        elif draw < 0.25:
            template.spread = (TopologySpreadConstraint(1, ZONE, "DoNotSchedule", me),)
        elif draw < 0.40:
            template.spread = (TopologySpreadConstraint(2, ZONE, "ScheduleAnyway", me),)
        elif draw < 0.55 and replicas * 4 < len(self.ordinary):
            apart = PodAffinity(required=(PodAffinityTerm(HOSTNAME, me),))
            template.affinity = Affinity(pod_anti_affinity=apart)
        elif draw < 0.60:
            near = PodAffinity(required=(PodAffinityTerm("topology.kubernetes.io/region", me),))
            template.affinity = Affinity(pod_affinity=near)
        template.finish(replicas)
        for ordinal, row in enumerate(self.places(template, replicas, on_gpu=on_gpu)):
            template.pod(f"{template.owner.name}-{_suffix(ordinal)}", row)
        if draw < 0.5 and replicas > 1:
            self.budget(template, replicas)

    def stateful_set(self, number: int, replicas: int) -> None:
        template = _Template(self, f"store-{number}", self.rng.choice(self.namespaces), "StatefulSet")
        template.finish(replicas)
        for ordinal, row in enumerate(self.places(template, replicas)):
            name = f"{template.app}-{ordinal}"
            claim = self.claim(template.namespace, f"data-{name}", row)
            labels = template.labels | {"statefulset.kubernetes.io/pod-name": name}
            template.pod(name, row, labels=labels, volumes=(*template.volumes, claim))
        if replicas > 1:
            self.budget(template, replicas)

    def job(self, number: int, replicas: int) -> None:
        template = _Template(self, f"job-{number}", self.rng.choice(self.namespaces), "Job")
        template.finish(replicas)
        for ordinal, row in enumerate(self.places(template, replicas)):
            template.pod(f"{template.app}-{_suffix(ordinal)}", row)

    def places(self, template: "_Template", replicas: int, *, on_gpu: bool = False) -> Iterator[int]:
        """Nodes with room, each zone in its turn, no node twice before all were looked at."""
        nodes = self.with_gpu if on_gpu else self.ordinary
        position = self.rng.randrange(len(nodes))
        stride = max(1, len(nodes) // max(replicas, 1)) | 1
        zone = self.rng.randrange(len(_ZONES))
        for ordinal in range(replicas):
            wanted = _ZONES[(zone + ordinal) % len(_ZONES)]
            for step in range(4 * len(nodes)):
                row = nodes[(position + step) % len(nodes)]
                in_zone = on_gpu or self.cluster.nodes[row].labels[ZONE] == wanted
                if in_zone and row not in template.rows and self.has_room(row, template):
                    break
            else:
                return
            template.rows.add(row)
            position += stride + step
            yield row

    def has_room(self, row: int, template: "_Template") -> bool:
        cpu_millis, memory = template.cpu_millis, template.memory_bytes
        return (
            self.free_cpu[row] >= cpu_millis and self.free_memory[row] >= memory and self.free_pods[row] > 0
        )

    def claim(self, namespace: str, name: str, row: int) -> PodVolume:
        zone = self.cluster.nodes[row].labels[ZONE]
        volume = f"pvc-{_uid(self.rng)}"
        here = NodeSelectorTerm((NodeSelectorRequirement(ZONE, "In", (zone,)),))
        shared: dict[str, Any] = {
            "storage_class": _CLASS,
            "access_modes": ("ReadWriteOnce",),
            "phase": "Bound",
        }
        self.cluster.storage += (
            ClaimRecord(
                key=f"{namespace}/{name}",
                namespace=namespace,
                uid=_uid(self.rng),
                volume=volume,
                is_bound=True,
                size_bytes=10 * GIB,
                **shared,
            ),
            VolumeRecord(
                name=volume,
                uid=_uid(self.rng),
                capacity_bytes=10 * GIB,
                claim=ClaimReference(namespace, name),
                node_affinity=NodeSelector((here,)),
                source="csi",
                source_name=volume,
                csi_driver=_DRIVER,
                **shared,
            ),
        )
        return PodVolume(CLAIM_VOLUME, name)

    def budget(self, template: "_Template", replicas: int) -> None:
        self.cluster.budgets.append(
            BudgetRecord(
                key=f"{template.namespace}/{template.app}",
                namespace=template.namespace,
                selector=LabelSelector((("app", template.app),)),
                disruptions_allowed=1,
                current_healthy=replicas,
                desired_healthy=replicas - 1,
                expected_pods=replicas,
            )
        )


class _Template:
    """What the pods of one workload share."""

    def __init__(self, maker: _Maker, app: str, namespace: str, kind: str, cpu_millis: int = 0) -> None:
        rng = maker.rng
        self.maker, self.app, self.namespace, self.kind = maker, app, namespace, kind
        self.cpu_millis = cpu_millis or rng.choice(_CPU_MILLIS)
        self.memory_bytes = rng.choice(_MEMORY) if not cpu_millis else 64 * MIB
        self.extended: tuple[tuple[str, int], ...] = ()
        self.tolerations = _USUAL
        self.spread: tuple[TopologySpreadConstraint, ...] = ()
        self.affinity = Affinity()
        self.volumes: tuple[PodVolume, ...] = (PodVolume(EMPTY_DIR_VOLUME),) if rng.random() < 0.3 else ()
        self.rows: set[int] = set()
        name = f"{app}-{_suffix(rng.randrange(10**6))}" if kind == "ReplicaSet" else app
        version = "batch/v1" if kind == "Job" else "apps/v1"
        self.owner = OwnerReference(kind, name, _uid(rng), version, controller=True)
        self.owners = (self.owner,)
        self.labels = {"app": app, "team": namespace, "version": "v1"}
        if kind == "ReplicaSet":
            self.labels["pod-template-hash"] = name.rpartition("-")[2]

    def finish(self, replicas: int) -> None:
        amounts = Resources(self.cpu_millis, self.memory_bytes, 0, 0, self.extended)
        constraints = SchedulingConstraints(tolerations=self.tolerations, spread=self.spread)
        self.shape = PodShape(
            constraints=constraints,
            requests=amounts,
            containers=(Container("app", f"registry.example.com/{self.app}:1", amounts),),
            scheduler_name="default-scheduler",
            priority=self.maker.rng.choice((0, 0, 0, 100, 1000)),
            restart_policy="OnFailure" if self.kind == "Job" else "Always",
            grace_period_s=30,
        )
        self._workloads(replicas)

    def _workloads(self, replicas: int) -> None:
        common: dict[str, Any] = {
            "namespace": self.namespace,
            "labels": self.labels,
            "selector": LabelSelector((("app", self.app),)),
            "generation": 1,
            "observed_generation": 1,
            "replicas": replicas,
            "current_replicas": replicas,
            "ready_replicas": replicas,
            "available_replicas": replicas,
            "updated_replicas": replicas,
        }
        owners: tuple[OwnerReference, ...] = ()
        found = self.maker.cluster.workloads
        if self.kind == "ReplicaSet":
            above = OwnerReference("Deployment", self.app, _uid(self.maker.rng), "apps/v1", controller=True)
            owners = (above,)
            found.append(
                WorkloadRecord(
                    kind="Deployment",
                    api_version="apps/v1",
                    key=f"{self.namespace}/{self.app}",
                    uid=above.uid,
                    update_type="RollingUpdate",
                    max_surge="25%",
                    max_unavailable="25%",
                    surge=-(-replicas // 4),
                    unavailable=replicas // 4,
                    **common,
                )
            )
        found.append(
            WorkloadRecord(
                kind=self.kind,
                api_version=self.owner.api_version,
                key=f"{self.namespace}/{self.owner.name}",
                uid=self.owner.uid,
                owners=owners,
                **common,
            )
        )

    def pod(
        self,
        name: str,
        row: int,
        *,
        labels: dict[str, str] | None = None,
        affinity: Affinity | None = None,
        volumes: tuple[PodVolume, ...] | None = None,
    ) -> None:
        maker, rng = self.maker, self.maker.rng
        maker.free_cpu[row] -= self.cpu_millis
        maker.free_memory[row] -= self.memory_bytes
        maker.free_pods[row] -= 1
        created_s = NOW_S - rng.randrange(3_600, 5_000_000)
        maker.cluster.pods.append(
            PodRecord(
                key=f"{self.namespace}/{name}",
                namespace=self.namespace,
                uid=_uid(rng),
                resource_version=str(rng.randrange(10**8, 10**9)),
                created_s=created_s,
                labels=labels or self.labels,
                owners=self.owners,
                node=maker.cluster.nodes[row].name,
                shape=self.shape,
                affinity=self.affinity if affinity is None else affinity,
                volumes=self.volumes if volumes is None else volumes,
                requests=self.shape.requests,
                phase="Running",
                conditions=_READY,
                container_statuses=(
                    ContainerStatus("app", ready=True, started=True, state=ContainerStateRunning()),
                ),
                started_s=created_s + 1,
            )
        )


_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def _suffix(number: int) -> str:
    """Five letters that look like dice, and are never the same for two numbers below a million."""
    number = number * 7_368_787 % len(_LETTERS) ** 5
    letters = []
    for _ in range(5):
        number, letter = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[letter])
    return "".join(letters)


def _uid(rng: random.Random) -> str:
    raw = f"{rng.getrandbits(128):032x}"
    return f"{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:]}"
