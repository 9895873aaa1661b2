"""The objects of `metrics.k8s.io/v1beta1`, computed from running pods and their behaviour."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

from kubesim.behaviour import SimulatedUsage, node_usage, pod_usage
from kubevalues import EVERYTHING, Selector
from tests.testbed.fake_kubelet import FakeKubelet
from tests.testbed.fake_kubelet.held import HeldPod

__all__ = ["DISCOVERY", "GROUP_VERSION", "FakeUsage", "described", "listed", "node_metrics", "pod_metrics"]

Object = dict[str, Any]
GROUP_VERSION = "metrics.k8s.io/v1beta1"
WINDOW = "15s"

_VERBS = ["get", "list"]
DISCOVERY: Object = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": GROUP_VERSION,
    "resources": [
        {"name": "nodes", "singularName": "", "namespaced": False, "kind": "NodeMetrics", "verbs": _VERBS},
        {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": _VERBS},
    ],
}


def listed(kind: str, items: Iterable[Object]) -> Object:
    return {"kind": f"{kind}List", "apiVersion": GROUP_VERSION, "metadata": {}, "items": list(items)}


class FakeUsage:
    """What the nodes and pods of a fake kubelet use."""

    def __init__(self, kubelet: FakeKubelet) -> None:
        self.node_metrics = partial(node_metrics, kubelet)
        self.pod_metrics = partial(pod_metrics, kubelet)


def node_metrics(
    kubelet: FakeKubelet, now: datetime, *, name: str = "", selector: Selector = EVERYTHING
) -> Iterator[Object]:
    """Return the usage of the nodes that are alive: a dead one has none."""
    for known, played in kubelet.played.items():
        labels = played.node["metadata"].get("labels") or {}
        if kubelet.is_dead(known) or (name and known != name) or not selector.matches(labels):
            continue
        pods = [used for pod in kubelet.pods.find("node", known) for used in _used(kubelet, pod, now)]
        used = node_usage(
            known,
            played.node["status"]["allocatable"],
            played.behaviour,
            pods,
            now=now,
            seed=kubelet.behaviour.seed,
        )
        yield described("NodeMetrics", {"name": known, "labels": labels}, now) | {"usage": _quantities(used)}


def pod_metrics(
    kubelet: FakeKubelet,
    now: datetime,
    *,
    namespace: str = "",
    name: str = "",
    selector: Selector = EVERYTHING,
) -> Iterator[Object]:
    for held in kubelet.pods:
        in_namespace, _, own_name = held.key.partition("/")
        if namespace not in ("", in_namespace) or name not in ("", own_name) or kubelet.is_dead(held.node):
            continue
        pod = held.whole()
        metadata = pod["metadata"]
        labels = metadata.get("labels") or {}
        used = pod_usage(pod, kubelet.behaviour, now)
        if used and selector.matches(labels):
            identity = {"name": metadata["name"], "namespace": metadata["namespace"], "labels": labels}
            containers = [{"name": each, "usage": _quantities(amount)} for each, amount in used.items()]
            yield described("PodMetrics", identity, now) | {"containers": containers}


def _used(kubelet: FakeKubelet, held: HeldPod, now: datetime) -> Iterable[SimulatedUsage]:
    return pod_usage(held.whole(), kubelet.behaviour, now).values()


def described(kind: str, metadata: Object, now: datetime) -> Object:
    """An object of the group, still without amounts."""
    moment = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "kind": kind,
        "apiVersion": GROUP_VERSION,
        "metadata": metadata | {"creationTimestamp": moment},
        "timestamp": moment,
        "window": WINDOW,
    }


def _quantities(used: SimulatedUsage) -> Object:
    return {"cpu": f"{used.cpu_millis}m", "memory": f"{used.memory_bytes}"}
