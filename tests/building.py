"""Clusters for tests, in a few words.

    shop = cluster().node("a", cpu="8").node("b")
    shop.deployment("shop/web", replicas=3, on=["a", "a", "b"], cpu="500m")
    snapshot = shop.snapshot(now=NOW)

Every object is made as JSON and read as the program reads it, so that shapes are those of real ones. What
has no parameter can be given raw: `spec={…}` is laid over the spec, `status={…}` over the status; which
parameters there are is said in `tests/objects.py`.
Everything returns the cluster, for the next call to follow. Applying an object again replaces it.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from rescheduler.cluster.cluster_state import ClusterState, apply_object
from rescheduler.cluster.codecs.record_resources import NodeReader, PodReader
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.cluster.usage_readings import UsageReading
from tests.objects import (
    LONG_AGO,
    REQUIRED,
    ROLLING,
    Json,
    budget_object,
    claim_object,
    csi_node_object,
    merged,
    metadata_of,
    node_object,
    only_on,
    parts_of,
    pod_object,
    replica_counts,
    storage_class_object,
    volume_object,
    workload_object,
)

__all__ = ["LONG_AGO", "NOW", "ClusterBuilder", "Json", "cluster", "merged", "node_record", "pod_record"]

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC).timestamp()
"""What the time is, unless a test says otherwise."""

_pods = PodReader()
_nodes = NodeReader()


def cluster() -> "ClusterBuilder":
    return ClusterBuilder()


class ClusterBuilder:
    def __init__(self) -> None:
        self.state = ClusterState()
        self.usage_of: dict[str, UsageReading] = {}
        self.objects: list[Json] = []
        """Everything that was applied, as JSON, in order."""

    def node(self, name: str, **parts: Any) -> "ClusterBuilder":
        return self.apply(node_object(name, **parts))

    def nodes(self, *names: str, **parts: Any) -> "ClusterBuilder":
        """Several that are alike."""
        for name in names:
            self.node(name, **parts)
        return self

    def pod(self, key: str, **parts: Any) -> "ClusterBuilder":
        return self.apply(pod_object(key, **parts))

    def deployment(
        self,
        key: str,
        *,
        replicas: int = 1,
        on: Iterable[str] = (),
        strategy: Json | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        spec: Json | None = None,
        status: Json | None = None,
        **pod_parts: Any,
    ) -> "ClusterBuilder":
        """Add a Deployment, ReplicaSet `name-1` and pods `name-1-0`, `name-1-1`, …, on these nodes in turn.

        `spec` and `status` are of the Deployment; all else that a pod can have goes to the pods.
        """
        namespace, name = key.split("/")
        replica_set = f"{name}-1"
        own = {"app": name, **(labels or {})}
        counts = replica_counts(replicas)
        selector = {"matchLabels": {"app": name}}
        deployment = {
            "spec": {"replicas": replicas, "selector": selector, "strategy": strategy or ROLLING},
            "status": {**counts, "updatedReplicas": replicas},
        }
        self._workload("Deployment", key, merged(deployment, parts_of(spec, status)), own, annotations)
        self._workload(
            "ReplicaSet",
            f"{namespace}/{replica_set}",
            {"spec": {"replicas": replicas, "selector": selector}, "status": counts},
            own,
            owner=f"Deployment/{name}",
        )
        hashed = own | {"pod-template-hash": "1"}
        return self._replicas(
            f"{namespace}/{replica_set}", f"ReplicaSet/{replica_set}", replicas, on, hashed, pod_parts
        )

    def replica_set(
        self,
        key: str,
        *,
        replicas: int = 1,
        on: Iterable[str] = (),
        owner: str = "",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        spec: Json | None = None,
        status: Json | None = None,
        **pod_parts: Any,
    ) -> "ClusterBuilder":
        name = key.split("/")[1]
        own = {"app": name, **(labels or {})}
        selector = {"matchLabels": {"app": name}}
        item = {"spec": {"replicas": replicas, "selector": selector}, "status": replica_counts(replicas)}
        self._workload("ReplicaSet", key, merged(item, parts_of(spec, status)), own, annotations, owner)
        return self._replicas(key, f"ReplicaSet/{name}", replicas, on, own, pod_parts)

    def stateful_set(
        self,
        key: str,
        *,
        replicas: int = 1,
        on: Iterable[str] = (),
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        spec: Json | None = None,
        status: Json | None = None,
        claim: str = "",
        **pod_parts: Any,
    ) -> "ClusterBuilder":
        """Add a StatefulSet; with `claim`, each pod mounts `CLAIM-name-N`, which the test creates itself."""
        namespace, name = key.split("/")
        own = {"app": name, **(labels or {})}
        item = {
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                "podManagementPolicy": "OrderedReady",
            },
            "status": replica_counts(replicas)
            | {"updatedReplicas": replicas, "currentRevision": "1", "updateRevision": "1"},
        }
        self._workload("StatefulSet", key, merged(item, parts_of(spec, status)), own, annotations)
        nodes = list(on)
        for ordinal in range(replicas):
            pod = f"{namespace}/{name}-{ordinal}"
            each = own | {"statefulset.kubernetes.io/pod-name": f"{name}-{ordinal}"}
            claims = {"claims": [f"{claim}-{name}-{ordinal}"]} if claim else {}
            parts = {"labels": each, "owner": f"StatefulSet/{name}", **claims, **pod_parts}
            self.pod(pod, on=nodes[ordinal % len(nodes)] if nodes else "", **parts)
        return self

    def daemon_set(
        self, key: str, *, on: Sequence[str], labels: Mapping[str, str] | None = None, **pod_parts: Any
    ) -> "ClusterBuilder":
        """One pod on each of these nodes, pinned there as its controller does it."""
        namespace, name = key.split("/")
        own = {"app": name, **(labels or {})}
        count = len(on)
        counted = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady")
        status = dict.fromkeys((*counted, "numberAvailable", "updatedNumberScheduled"), count)
        item = {
            "spec": {"selector": {"matchLabels": {"app": name}}, "updateStrategy": {"type": "RollingUpdate"}},
            "status": status | {"observedGeneration": 1},
        }
        self._workload("DaemonSet", key, item, own)
        for node in on:
            pinned = {"affinity": {"nodeAffinity": {REQUIRED: only_on(node)}}}
            parts = {"labels": own, "owner": f"DaemonSet/{name}", "spec": pinned, **pod_parts}
            self.pod(f"{namespace}/{name}-{node}", on=node, **parts)
        return self

    def job(
        self,
        key: str,
        *,
        on: Sequence[str] = (),
        owner: str = "",
        labels: Mapping[str, str] | None = None,
        **pod_parts: Any,
    ) -> "ClusterBuilder":
        """Add a Job with one pod per named node."""
        namespace, name = key.split("/")
        own = {"job-name": name, **(labels or {})}
        item = {
            "spec": {"parallelism": len(on), "completions": len(on)},
            "status": {"active": len(on), "ready": len(on)},
        }
        self._workload("Job", key, item, own, owner=owner)
        once = {"restartPolicy": "Never", **pod_parts.pop("spec", {})}
        for ordinal, node in enumerate(on):
            self.pod(
                f"{namespace}/{name}-{ordinal}",
                on=node,
                **{"labels": own, "owner": f"Job/{name}", "spec": once, **pod_parts},
            )
        return self

    def budget(self, key: str, **parts: Any) -> "ClusterBuilder":
        return self.apply(budget_object(key, **parts))

    def claim(self, key: str, **parts: Any) -> "ClusterBuilder":
        return self.apply(claim_object(key, **parts))

    def volume(self, name: str, **parts: Any) -> "ClusterBuilder":
        return self.apply(volume_object(name, **parts))

    def storage_class(self, name: str, **parts: Any) -> "ClusterBuilder":
        return self.apply(storage_class_object(name, **parts))

    def csi_node(self, name: str, **parts: Any) -> "ClusterBuilder":
        return self.apply(csi_node_object(name, **parts))

    def namespace(self, name: str, **labels: str) -> "ClusterBuilder":
        labelled = {"kubernetes.io/metadata.name": name, **labels}
        return self.apply({"kind": "Namespace", "metadata": metadata_of(name) | {"labels": labelled}})

    def usage(self, key: str, *, cpu_millis: int, memory_bytes: int = 0) -> "ClusterBuilder":
        """What a pod uses, measured now."""
        self.usage_of[key] = UsageReading(cpu_millis, memory_bytes, NOW)
        return self

    def apply(self, item: Json) -> "ClusterBuilder":
        """Any object, as JSON."""
        self.objects.append(item)
        if item["kind"] == "Pod":
            self.state.apply_pod(pod_record(item))
        elif item["kind"] == "Node":
            self.state.apply_node(node_record(item))
        else:
            apply_object(self.state, item["kind"], item)
        return self

    def remove(self, key: str) -> "ClusterBuilder":
        """The pod of that key."""
        self.state.remove_pod(key)
        return self

    def snapshot(self, now: float = NOW, **more: Any) -> Snapshot:
        self.state.apply_usage(dict(self.usage_of))
        return self.state.freeze(now, **more)

    def _workload(self, kind: str, key: str, *parts: Any, **more: Any) -> None:
        self.apply(workload_object(kind, key, *parts, **more))

    def _replicas(
        self,
        prefix: str,
        owner: str,
        replicas: int,
        on: Iterable[str],
        labels: Mapping[str, str],
        pod_parts: Mapping[str, Any],
    ) -> "ClusterBuilder":
        nodes = list(on)
        for number in range(replicas):
            node = nodes[number % len(nodes)] if nodes else ""
            parts = {"labels": labels, "owner": owner, **pod_parts}
            self.pod(f"{prefix}-{number}", on=node, **parts)
        return self


def pod_record(item: Json) -> PodRecord:
    return _pods.from_json(msgspec.json.encode(item))


def node_record(item: Json) -> NodeRecord:
    return _nodes.from_json(msgspec.json.encode(item))
