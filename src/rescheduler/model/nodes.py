"""What is kept of a node."""

from collections.abc import Mapping

import msgspec

from rescheduler.model.resources import Resources

__all__ = ["NodeCondition", "NodeRecord", "Taint"]


class Taint(msgspec.Struct, frozen=True, gc=False):
    key: str
    value: str = ""
    effect: str = ""
    added_s: int | None = None
    """Seconds since 1970, like every time in a record."""


class NodeCondition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    since_s: int = 0
    heartbeat_s: int = 0


class NodeRecord(msgspec.Struct, frozen=True, gc=False):
    name: str
    uid: str = ""
    resource_version: str = ""
    created_s: int = 0
    deleted_s: int | None = None
    labels: Mapping[str, str] = {}
    marks: Mapping[str, str] = {}
    """Its annotations, of those that `metadata.is_mark`."""
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    """Cordoned."""
    allocatable: Resources = Resources()
    capacity: Resources = Resources()
    conditions: tuple[NodeCondition, ...] = ()
    provider_id: str = ""
    volumes_in_use: tuple[str, ...] = ()
    volumes_attached: tuple[str, ...] = ()
    declared_features: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Nodes have no namespace: the name alone."""
        return self.name

    @property
    def is_ready(self) -> bool:
        return any(condition.type == "Ready" and condition.status == "True" for condition in self.conditions)

    def condition(self, kind: str) -> NodeCondition | None:
        return next((condition for condition in self.conditions if condition.type == kind), None)
