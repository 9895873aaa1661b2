"""Random clusters with every property that a rule reads, and variants with other pods."""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.snapshot import Snapshot
from tests.building import ClusterBuilder, cluster, merged
from tests.e2e.scheduler_truth.generator import random_cluster_of
from tests.e2e.scheduler_truth.random_cluster import NAMESPACES

__all__ = ["copy_of", "random_cluster", "with_pods"]

_PENDING = 12


def random_cluster(seed: int) -> ClusterBuilder:
    """Six nodes, pods on them, and pods that have no node yet."""
    random = random_cluster_of(seed, 0, _PENDING)
    found = cluster()
    for name, labels in NAMESPACES.items():
        found.namespace(name, **labels)
    for item in (*random.objects, *(question.pod for question in random.questions)):
        found.apply(_as_it_became(item))
    return found


def with_pods(built: ClusterBuilder, pods: Iterable[PodRecord]) -> Snapshot:
    """The same cluster, but these pods from now on."""
    for pod in built.snapshot().pods.records:
        built.remove(pod.key)
    for pod in pods:
        built.state.apply_pod(pod)
    return built.snapshot()


def copy_of(pod: PodRecord, node: str, *, name: str = "") -> PodRecord:
    """The pod as a controller would create it again: without what happened to it since."""
    key = f"{pod.namespace}/{name}" if name else pod.key
    phase = "Running" if node else "Pending"
    return replace(
        pod, key=key, uid=f"uid-of-{key}", node=node, phase=phase, requests=pod.shape.requests, deleted_s=None
    )


def _as_it_became(item: dict[str, Any]) -> dict[str, Any]:
    """What random clusters say is to come after an object's creation."""
    plain = {name: part for name, part in item.items() if name != "truth"}
    plain = merged({"metadata": {"uid": f"uid-of-{item['kind']}-{item['metadata']['name']}"}}, plain)
    truth = item.get("truth", {})
    if "status" in truth:
        plain = merged(plain, {"status": truth["status"]})
    if "ends" in truth:
        plain = merged(plain, {"metadata": {"deletionTimestamp": "2026-03-02T12:00:00Z"}})
    return plain
