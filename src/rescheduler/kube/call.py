"""What a request is about, in Kubernetes' own words: for errors, for counting, for the log."""

from dataclasses import dataclass

__all__ = ["READS", "Call"]

READS = frozenset({"get", "list", "watch"})


@dataclass(frozen=True, slots=True)
class Call:
    verb: str
    """As RBAC names it (get, list, watch, create, update, patch, delete), or `evict`."""
    resource: str
    """As messages name it: `pods`, `deployments.apps`."""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def is_write(self) -> bool:
        return self.verb not in READS

    @property
    def subject(self) -> str:
        """The object, or the objects, that the call is about."""
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        if self.name:
            return f"{resource} {self.namespace}/{self.name}" if self.namespace else f"{resource} {self.name}"
        return f"{resource} in namespace {self.namespace}" if self.namespace else resource

    def __str__(self) -> str:
        return f"{self.verb} {self.subject}"
