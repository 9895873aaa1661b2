"""What kse-rescheduler left on workloads, read as our own record: so that its users can switch.

It counts how often it deleted pods of a workload, and lists their nodes:

    kse.com/deploy: {"currentReschedulingTimes": 2, "deployScheduledHosts": ["n1", "n2"]}
    kse.com/sts-pods-map: {"db-0": {"currentReschedulingTimes": 1, "podScheduledHosts": ["n1"]}}

It says nothing of times and pods; nor does what we make of it.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import msgspec

from rescheduler.model.selectors.names import subdomain_fault
from rescheduler.recovery.ledger import MOST_LINES, Ledger, Line, Try
from rescheduler.recovery.lines import CARRIED_OVER

__all__ = ["OLDER_PREFIX", "OLDER_RECORDS", "carried_over"]

OLDER_PREFIX: Final = "kse.com/"
OLDER_RECORDS: Final[Mapping[str, str]] = {
    "Deployment": "kse.com/deploy",
    "ReplicaSet": "kse.com/rs",
    "StatefulSet": "kse.com/sts-pods-map",
    "Job": "kse.com/job",
    "CronJob": "kse.com/cj",
    "Pod": "kse.com/pod",
}
"""The annotation that holds it, by the holder's kind."""

_COUNT: Final = "currentReschedulingTimes"
_HOSTS: Final = "ScheduledHosts"
_Count = Annotated[int, msgspec.Meta(ge=0, le=1000)]


def carried_over(kind: str, name: str, marks: Mapping[str, str], most: int) -> Ledger | None:
    """None if there is nothing, or nothing that makes sense. `name` is the holder's; no line has more than
    `most` tries: the older tool deletes once more than it is allowed to."""
    written = marks.get(OLDER_RECORDS.get(kind, ""))
    if not written:
        return None
    try:
        found = msgspec.json.decode(written, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    if kind == "StatefulSet":
        lines = {pod: _line(told, most) for pod, told in sorted(found.items())[:MOST_LINES]}
    else:
        lines = {name if kind == "Pod" else CARRIED_OVER: _line(found, most)}
    kept = {each: line for each, line in lines.items() if line is not None}
    return Ledger(kept) if kept else None


def _line(told: object, most: int) -> Line | None:
    if not isinstance(told, dict):
        return None
    hosts = list(_hosts(told))
    try:
        count = msgspec.convert(told.get(_COUNT, len(hosts)), _Count)
    except msgspec.ValidationError:
        count = len(hosts)
    kept = min(count, most)
    nodes = ["", *hosts][-kept:] if kept <= len(hosts) else [*[""] * (kept - len(hosts)), *hosts]
    return Line(tries=tuple(Try(node=node) for node in nodes)) if kept else None


def _hosts(told: Mapping[str, object]) -> Iterator[str]:
    for key, hosts in told.items():
        # Its Go tags write "deployScheduledHosts", "podScheduledHosts", … with the kind in front.
        if key.endswith(_HOSTS) and isinstance(hosts, list):
            yield from (host for host in hosts if isinstance(host, str) and subdomain_fault(host) is None)
