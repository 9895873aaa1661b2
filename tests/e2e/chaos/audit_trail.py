"""Which client sent which request, from the API server's audit log."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

__all__ = ["RESCHEDULER", "AuditedRequest", "audited_requests", "removal_of"]

RESCHEDULER = "rescheduler"
"""How the service accounts of the programs under test begin: the daemon's, and the webhook's."""
_WRITES = {"create", "update", "patch", "delete", "deletecollection"}
_SECOND = timedelta(seconds=1)


class AuditedRequest(NamedTuple):
    """A write that the API server has granted."""

    user: str
    verb: str
    resource: str
    """With its subresource: `pods/eviction`."""
    namespace: str
    name: str
    received: datetime
    done: datetime

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def is_reschedulers(self) -> bool:
        return self.user.rpartition(":")[2].startswith(RESCHEDULER)

    @property
    def removes_pod(self) -> bool:
        return (self.resource, self.verb) in {("pods/eviction", "create"), ("pods", "delete")}


def audited_requests(events: Iterable[dict[str, Any]]) -> Iterator[AuditedRequest]:
    for event in events:
        about, code = event.get("objectRef"), (event.get("responseStatus") or {}).get("code", 0)
        is_dry_run = "dryRun=All" in event["requestURI"]
        if not about or event["verb"] not in _WRITES or not 200 <= code < 300 or is_dry_run:
            continue
        yield AuditedRequest(
            user=(event.get("impersonatedUser") or event["user"])["username"],
            verb=event["verb"],
            resource="/".join(filter(None, (about.get("resource"), about.get("subresource")))),
            namespace=about.get("namespace", "") if about.get("resource") != "nodes" else "",
            name=about.get("name", ""),
            received=datetime.fromisoformat(event["requestReceivedTimestamp"]),
            done=datetime.fromisoformat(event["stageTimestamp"]),
        )


def removal_of(
    candidates: Iterable[AuditedRequest], asked_at: datetime, *, was_evicted: bool
) -> AuditedRequest | None:
    """The request that made a pod leave: the first one at the time that its deletionTimestamp tells.

    None if the log has none, as when the API server was killed before it had written it down.
    """
    wanted = "pods/eviction" if was_evicted else "pods"
    fitting = [
        each
        for each in candidates
        if each.resource == wanted and each.received - _SECOND <= asked_at <= each.done + _SECOND
    ]
    return min(fitting, key=lambda each: each.done, default=None)
