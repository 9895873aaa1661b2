"""What someone is trying to do: the part of a request that webhooks are told about."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rescheduler.simulator.exchange import Object
from rescheduler.simulator.kinds import Kind

__all__ = ["Attempt"]

_GIVEN_LATER = frozenset({"uid", "creationTimestamp", "generation"})
"""What a new object gets only when it is stored; its status, too, unless a kubelet brings it."""
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


@dataclass(frozen=True, slots=True)
class Attempt:
    kind: Kind
    operation: Literal["CREATE", "UPDATE", "DELETE"]
    object: Object | None
    """As it would be stored; none when it is deleted."""
    old: Object | None = None
    name: str = ""
    namespace: str = ""
    subresource: str = ""
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    field_manager: str = ""
    user: str = "system:admin"
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")

    def request(self, uid: str) -> Object:
        """As `AdmissionReview` has it."""
        kind = self.kind
        spoken = {"group": kind.group, "version": kind.version, "kind": kind.name}
        resource = {"group": kind.group, "version": kind.version, "resource": kind.plural}
        request: Object = {
            "uid": uid,
            "kind": spoken,
            "resource": resource,
            "requestKind": spoken,
            "requestResource": resource,
            "operation": self.operation,
            "userInfo": {"username": self.user, "groups": list(self.groups)},
            "object": self._shown(self.object),
            "oldObject": self._shown(self.old),
            "dryRun": self.dry_run,
            "options": self._options(),
        }
        if self.name:
            request["name"] = self.name
        if kind.namespaced:
            request["namespace"] = self.namespace
        if self.subresource:
            request["subResource"] = request["requestSubResource"] = self.subresource
        return request

    def _options(self) -> Object:
        options: Object = {"kind": _OPTIONS[self.operation], "apiVersion": "meta.k8s.io/v1"}
        if self.dry_run:
            options["dryRun"] = ["All"]
        if self.field_manager:
            options["fieldManager"] = self.field_manager
        return options

    def _shown(self, obj: Object | None) -> Object | None:
        """Stored objects don't repeat their kind; webhooks are told."""
        if obj is None:
            return None
        shown: Object = {"kind": self.kind.name, "apiVersion": self.kind.api_version} | obj
        if self.operation == "CREATE":
            shown["metadata"] = {k: v for k, v in obj["metadata"].items() if k not in _GIVEN_LATER}
            if "status" in shown and self.kind.name != "Node":
                shown["status"] = {}
        return shown
