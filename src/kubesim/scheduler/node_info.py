"""Nodes, pods, affinity terms and storage as the scheduler needs them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from kubesim.apiserver.api_messages import Object
from kubesim.scheduler.pod_resource_requests import Amounts, amounts, held_by, wanted_by
from kubevalues import EVERYTHING, NOTHING, Selector, SelectorError, selector_from_object
from kubevalues.quantity import quantity_of

__all__ = [
    "InterPodTerm",
    "NodeInfo",
    "PodHostPort",
    "PodInfo",
    "StorageInfo",
    "claim_class",
    "claims_of",
    "is_bound",
    "required_terms",
    "volume_class",
]


@dataclass(frozen=True, slots=True)
class InterPodTerm:
    """A term of inter-pod affinity; hashable, so that the pods of a workload share its counts."""

    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector

    def includes_namespace(self, namespace: str, labels: dict[str, str]) -> bool:
        return namespace in self.namespaces or self.namespace_selector.matches(labels)


def required_terms(pod: Object, kind: str) -> tuple[InterPodTerm, ...]:
    """Return the required terms; `kind` is `podAffinity` or `podAntiAffinity`."""
    affinity = (pod["spec"].get("affinity") or {}).get(kind) or {}
    own = pod["metadata"].get("namespace", "")
    listed = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    return tuple(_term(term, own) for term in listed)


def _term(term: Object, own_namespace: str) -> InterPodTerm:
    """Return a term; its label keys were merged into the selector when the pod was created."""
    named, by_labels = term.get("namespaces") or (), term.get("namespaceSelector")
    return InterPodTerm(
        topology_key=term["topologyKey"],
        namespaces=frozenset(named) if named or by_labels is not None else frozenset({own_namespace}),
        namespace_selector=_readable(by_labels),
        selector=_readable(term.get("labelSelector")),
    )


def _readable(selector: object) -> Selector:
    if selector == {}:
        return EVERYTHING
    try:
        return selector_from_object(selector)
    except SelectorError:  # admission rejects it; an invalid selector selects nothing
        return NOTHING


_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - nothing listens here, it is how a wildcard is written


class PodHostPort(NamedTuple):
    protocol: str
    port: int
    address: str

    def clashes_with(self, other: "PodHostPort") -> bool:
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return self.address == other.address or _ANY_ADDRESS in (self.address, other.address)


class PodInfo:
    """A pod with cached values; immutable."""

    def __init__(self, pod: Object) -> None:
        metadata, self.spec = pod["metadata"], pod["spec"]
        self.object = pod
        self.name: str = metadata["name"]
        self.namespace: str = metadata.get("namespace", "")
        self.key = f"{self.namespace}/{self.name}"
        self.uid: str = metadata.get("uid", "")
        self.labels: Mapping[str, str] = metadata.get("labels") or {}
        self.node: str = self.spec.get("nodeName") or ""
        self.priority: int = self.spec.get("priority") or 0
        self.terminating = "deletionTimestamp" in metadata
        self.status: Object = pod.get("status") or {}

    def counts_like(self, other: "PodInfo") -> bool:
        """Return whether both states of the pod count the same on its node."""
        return (
            (self.uid, self.owner_uid, self.node, self.terminating, self.finished)
            == (other.uid, other.owner_uid, other.node, other.terminating, other.finished)
            and self.labels == other.labels
            and self.spec == other.spec
            and self.held == other.held
        )

    @property
    def nominated_node(self) -> str:
        return self.status.get("nominatedNodeName") or ""

    @property
    def finished(self) -> bool:
        return self.status.get("phase") in {"Succeeded", "Failed"}

    @cached_property
    def wanted(self) -> Amounts:
        """Return the resources that the pod needs to be placed."""
        return wanted_by(self.object)

    @cached_property
    def held(self) -> Amounts:
        """Return the resources that the pod uses of its node."""
        return held_by(self.object)

    @cached_property
    def host_ports(self) -> tuple[PodHostPort, ...]:
        """Return the host ports of containers and sidecars, without other init containers."""
        running = [
            *(
                item
                for item in self.spec.get("initContainers") or ()
                if item.get("restartPolicy") == "Always"
            ),
            *(self.spec.get("containers") or ()),
        ]
        return tuple(
            PodHostPort(port.get("protocol") or "TCP", port["hostPort"], port.get("hostIP") or _ANY_ADDRESS)
            for container in running
            for port in container.get("ports") or ()
            if port.get("hostPort")
        )

    @cached_property
    def affinity(self) -> tuple[InterPodTerm, ...]:
        return required_terms(self.object, "podAffinity")

    @cached_property
    def anti_affinity(self) -> tuple[InterPodTerm, ...]:
        return required_terms(self.object, "podAntiAffinity")

    @cached_property
    def volumes(self) -> tuple[Object, ...]:
        return tuple(self.spec.get("volumes") or ())

    @cached_property
    def claims(self) -> tuple[str, ...]:
        """Return the names of the pod's claims, without those of ephemeral volumes."""
        return tuple(
            volume["persistentVolumeClaim"]["claimName"]
            for volume in self.volumes
            if volume.get("persistentVolumeClaim")
        )

    @cached_property
    def owner_uid(self) -> str:
        """Return the uid of the pod's controller; empty if it has none."""
        owners = self.object["metadata"].get("ownerReferences") or ()
        return next((owner["uid"] for owner in owners if owner.get("controller")), "")

    def controls(self, dependent: Object) -> bool:
        owners = dependent["metadata"].get("ownerReferences") or ()
        return any(owner.get("controller") and owner.get("uid") == self.uid for owner in owners)


class NodeInfo:
    """A node with the pods on it; the node is fixed, the pods change."""

    def __init__(self, node: Object) -> None:
        metadata, spec = node["metadata"], node.get("spec") or {}
        self.object = node
        self.name: str = metadata["name"]
        self.labels: Mapping[str, str] = metadata.get("labels") or {}
        self.taints: tuple[Object, ...] = tuple(spec.get("taints") or ())
        self.unschedulable: bool = bool(spec.get("unschedulable"))
        status = node.get("status") or {}
        allocatable = status.get("allocatable") or {}
        self.allocatable = amounts(allocatable)
        self.room_for_pods = quantity_of(allocatable.get("pods", 0)).whole
        self.declared_features = frozenset(status.get("declaredFeatures") or ())
        self.pods: dict[str, PodInfo] = {}
        self.requested: dict[str, int] = {}
        self.with_ports: dict[str, PodInfo] = {}
        self.owners: dict[str, int] = {}
        """The number of pods here by the uid of their controller."""

    def is_like(self, other: "NodeInfo") -> bool:
        """Return whether all values that filters use are the same."""
        return all(
            getattr(self, field) == getattr(other, field)
            for field in (
                "labels", "taints", "unschedulable", "allocatable", "room_for_pods", "declared_features"
            )
        )  # fmt: skip

    def add(self, pod: PodInfo) -> None:
        self.pods[pod.key] = pod
        if pod.host_ports:
            self.with_ports[pod.key] = pod
        if pod.owner_uid:
            self.owners[pod.owner_uid] = self.owners.get(pod.owner_uid, 0) + 1
        for name, amount in pod.held.items():
            self.requested[name] = self.requested.get(name, 0) + amount

    def remove(self, pod: PodInfo) -> None:
        del self.pods[pod.key]
        self.with_ports.pop(pod.key, None)
        if pod.owner_uid:
            self.owners[pod.owner_uid] -= 1
        for name, amount in pod.held.items():
            self.requested[name] -= amount

    def take_over(self, before: "NodeInfo") -> None:
        """Take over the pods of an earlier state of the same node."""
        self.pods, self.with_ports = before.pods, before.with_ports
        self.requested, self.owners = before.requested, before.owners

    def replace(self, pod: PodInfo) -> None:
        """Replace a pod by a newer state that counts the same."""
        self.pods[pod.key] = pod
        if pod.host_ports:
            self.with_ports[pod.key] = pod


_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


class StorageInfo:
    """Storage objects by name; claims by `namespace/name`."""

    def __init__(self) -> None:
        self.claims: dict[str, Object] = {}
        self.volumes: dict[str, Object] = {}
        self.classes: dict[str, Object] = {}
        self.csi_nodes: dict[str, Object] = {}
        self.csi_drivers: dict[str, Object] = {}
        self.capacities: dict[str, Object] = {}
        self.attachments: dict[str, Object] = {}

    def by_kind(self, kind: str) -> dict[str, Object] | None:
        return {
            "PersistentVolumeClaim": self.claims,
            "PersistentVolume": self.volumes,
            "StorageClass": self.classes,
            "CSINode": self.csi_nodes,
            "CSIDriver": self.csi_drivers,
            "CSIStorageCapacity": self.capacities,
            "VolumeAttachment": self.attachments,
        }.get(kind)

    def claim(self, namespace: str, name: str) -> Object | None:
        return self.claims.get(f"{namespace}/{name}")


def claims_of(pod: PodInfo) -> Iterator[tuple[str, bool]]:
    """Yield the name of each claim, and whether it belongs to an ephemeral volume of the pod."""
    for volume in pod.volumes:
        if volume.get("persistentVolumeClaim"):
            yield volume["persistentVolumeClaim"]["claimName"], False
        elif volume.get("ephemeral"):
            yield f"{pod.name}-{volume['name']}", True


def claim_class(claim: Object) -> str:
    return _class(claim)


def volume_class(volume: Object) -> str:
    return _class(volume)


def is_bound(claim: Object) -> bool:
    """Return whether the claim names its volume and the binding is complete."""
    annotations = claim["metadata"].get("annotations") or {}
    return bool(claim["spec"].get("volumeName")) and _BIND_COMPLETED in annotations


def _class(item: Object) -> str:
    annotations = item["metadata"].get("annotations") or {}
    found: str = annotations.get(_BETA_CLASS, item["spec"].get("storageClassName") or "")
    return found
