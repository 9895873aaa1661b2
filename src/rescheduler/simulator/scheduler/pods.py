"""A pod as the scheduler looks at it: the plain object, and what is asked of it again and again."""

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from rescheduler.simulator.exchange import Object
from rescheduler.simulator.scheduler.affinity_terms import AffinityTerm, required_terms
from rescheduler.simulator.scheduler.requests import Amounts, held_by, wanted_by

__all__ = ["HostPort", "PodView"]

_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - nothing listens here, it is how a wildcard is written


class HostPort(NamedTuple):
    protocol: str
    port: int
    address: str

    def clashes_with(self, other: "HostPort") -> bool:
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return self.address == other.address or _ANY_ADDRESS in (self.address, other.address)


class PodView:
    """Never changes: a pod that did is looked at anew."""

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

    def counts_like(self, other: "PodView") -> bool:
        """Nothing differs that is counted on the node it is on: only its status moved on."""
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
        """What it needs to be put on a node."""
        return wanted_by(self.object)

    @cached_property
    def held(self) -> Amounts:
        """What it takes of the node it is on."""
        return held_by(self.object)

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """Of containers that run all the time: init containers only if they are sidecars."""
        running = [
            *(
                item
                for item in self.spec.get("initContainers") or ()
                if item.get("restartPolicy") == "Always"
            ),
            *(self.spec.get("containers") or ()),
        ]
        return tuple(
            HostPort(port.get("protocol") or "TCP", port["hostPort"], port.get("hostIP") or _ANY_ADDRESS)
            for container in running
            for port in container.get("ports") or ()
            if port.get("hostPort")
        )

    @cached_property
    def affinity(self) -> tuple[AffinityTerm, ...]:
        return required_terms(self.object, "podAffinity")

    @cached_property
    def anti_affinity(self) -> tuple[AffinityTerm, ...]:
        return required_terms(self.object, "podAntiAffinity")

    @cached_property
    def volumes(self) -> tuple[Object, ...]:
        return tuple(self.spec.get("volumes") or ())

    @cached_property
    def claims(self) -> tuple[str, ...]:
        """Names of the claims it mentions itself; those of ephemeral volumes are not among them."""
        return tuple(
            volume["persistentVolumeClaim"]["claimName"]
            for volume in self.volumes
            if volume.get("persistentVolumeClaim")
        )

    @cached_property
    def owner_uid(self) -> str:
        """Of the controller that made it: pods of one workload have the same."""
        owners = self.object["metadata"].get("ownerReferences") or ()
        return next((owner["uid"] for owner in owners if owner.get("controller")), "")

    def is_owned_by_it(self, dependent: Object) -> bool:
        owners = dependent["metadata"].get("ownerReferences") or ()
        return any(owner.get("controller") and owner.get("uid") == self.uid for owner in owners)
