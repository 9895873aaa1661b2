"""The status of the daemon, as text and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from kubevalues.duration import short_duration
from rescheduler.api.daemon_status import DaemonStatus, Pause
from rescheduler.api.podmigration import EVICTION
from rescheduler.cli.migrations_view import migration_list_lines
from rescheduler.cli.terminal import Terminal, abbreviated_list, counted, wrapped
from rescheduler.kube.leader_election import LeaseRecord

__all__ = ["ObservedStatus", "status_document", "status_lines"]

Object = dict[str, Any]

_RECENT: Final = 10
"""Finished migrations that are listed."""
_INDENT: Final = " " * 13


@dataclass(frozen=True, slots=True)
class ObservedStatus:
    """What the cluster stores about the daemon."""

    namespace: str
    pause: Pause
    status: DaemonStatus | None
    """As the leader wrote it; None if no leader has written one."""
    lease: LeaseRecord
    migrations: Sequence[Object] | None
    """None if the cluster has no PodMigration CRD."""
    in_maintenance: tuple[str, ...]
    """Nodes with the label, whether the daemon knows of them or not."""
    nodes: int = 0
    not_ready: int = 0

    @property
    def running(self) -> list[Object]:
        return [item for item in self._by_age() if not _finished_at(item)]

    @property
    def recent(self) -> list[Object]:
        """The migrations that finished last, newest first."""
        finished = [item for item in self._by_age() if _finished_at(item)]
        return sorted(finished, key=_finished_at, reverse=True)[:_RECENT]

    def _by_age(self) -> list[Object]:
        return sorted(self.migrations or (), key=lambda item: item["metadata"]["creationTimestamp"])

    def leads(self, now: datetime) -> str:
        """Return the holder of the Lease if it still renews it, else an empty string."""
        renewed, holder = self.lease.renewed, self.lease.holder
        # The time is from the clock of another machine. It is only shown, so a small error does no harm.
        is_alive = renewed is not None and now - renewed < timedelta(seconds=2 * self.lease.lasts_s + 5)
        return holder if holder and is_alive else ""


def _finished_at(item: Object) -> str:
    return str((item.get("status") or {}).get("finishedAt") or "")


# -- as text


def status_lines(found: ObservedStatus, terminal: Terminal, now: datetime) -> Iterator[str]:
    """Yield the lines that `rescheduler status` prints."""
    yield from _leader(found, terminal, now)
    yield from _check(found, terminal, now)
    yield from _halts(found, terminal, now)
    yield from _cluster(found, terminal)
    yield from _failing_lines(found, terminal)
    yield from _maintenance(found, terminal)
    yield from _evictions(found, terminal)
    yield from _migrations(found, terminal, now)


def _leader(found: ObservedStatus, terminal: Terminal, now: datetime) -> Iterator[str]:
    holder = found.leads(now)
    if holder:
        renewed = found.lease.renewed
        assert renewed is not None
        yield from _field_lines(terminal, "Leader", f"{holder}, renewed {_ago(renewed, now)}")
    elif found.lease.holder:
        last = f", last renewed {_ago(found.lease.renewed, now)}" if found.lease.renewed else ""
        yield from _field_lines(
            terminal, "Leader", f"none: {found.lease.holder} stopped renewing the Lease{last}", bad=True
        )
    else:
        yield from _field_lines(terminal, "Leader", f"none in namespace {found.namespace}", bad=True)
    status = found.status
    if status is not None:
        yield from _field_lines(terminal, "Version", status.version)
        if status.configuration:
            yield from _field_lines(
                terminal, "Config", f"invalid change ignored: {status.configuration}", bad=True
            )  # fmt: skip


def _check(found: ObservedStatus, terminal: Terminal, now: datetime) -> Iterator[str]:
    check = None if found.status is None else found.status.last_check
    if check is None:
        yield from _field_lines(terminal, "Last check", "none yet")
        return
    refused = sum(check.refused.values())
    reasons = sorted(check.refused.items(), key=lambda each: (-each[1], each[0]))
    words = f"{_ago(check.at, now)}, took {check.took_seconds:.2f} s, {counted(check.moves, 'move')}"
    words += (
        f", {counted(refused, 'pod')} refused ({abbreviated_list([f'{n} {why}' for why, n in reasons])})"
        * bool(refused)
    )
    words += f", load by {check.usage_source}"
    yield from _field_lines(terminal, "Last check", words)
    for assumption in check.assumptions:
        yield from _field_lines(terminal, "", assumption)


def _halts(found: ObservedStatus, terminal: Terminal, now: datetime) -> Iterator[str]:
    halts = () if found.status is None else found.status.halts
    for halt in halts:
        words = f"{halt.reason} for {_elapsed(halt.since, now)}: {halt.words}. Ends: {halt.ends}."
        yield from _field_lines(terminal, "Halted", words, bad=True)
    if found.pause.paused and not any(halt.reason == "Paused" for halt in halts):
        by = f" by {found.pause.by}" if found.pause.by else ""
        why = f": {found.pause.why}" if found.pause.why else ""
        yield from _field_lines(
            terminal, "Paused", f"requested{by}{why}; the daemon has not confirmed it yet", bad=True
        )
    if not halts and not found.pause.paused:
        yield from _field_lines(terminal, "Halts", "none")


def _cluster(found: ObservedStatus, terminal: Terminal) -> Iterator[str]:
    words = f"{found.nodes}, {found.not_ready} not Ready"
    yield from _field_lines(terminal, "Nodes", words, bad=found.not_ready > 0)
    for place, each in enumerate(found.status.balance if found.status else ()):
        words = (
            f"{each.resource}: mean {each.mean:.1f}%, from {each.least.percent:.1f}% ({each.least.node}) "
            f"to {each.most.percent:.1f}% ({each.most.node}), spread {each.spread:.1f}"
        )
        yield from _field_lines(terminal, "" if place else "Balance", words)


def _failing_lines(found: ObservedStatus, terminal: Terminal) -> Iterator[str]:
    status = found.status or DaemonStatus()
    for place, pod in enumerate(status.failing):
        words = f"{pod.pod} on {pod.node}: {pod.why}, attempt {pod.tries} of {pod.allowed}"
        yield from _field_lines(
            terminal, "" if place else "Failing", words + (f"; {pod.message}" * bool(pod.message))
        )
    for place, node in enumerate(status.suspects):
        words = f"{node.node}: {counted(node.workloads, 'workload')} failing there"
        yield from _field_lines(
            terminal, "" if place else "Suspect", words + (f"; {node.why}" * bool(node.why)), bad=True
        )  # fmt: skip


def _maintenance(found: ObservedStatus, terminal: Terminal) -> Iterator[str]:
    known = {each.node: each for each in (found.status.maintenance if found.status else ())}
    for place, name in enumerate(sorted({*known, *found.in_maintenance})):
        if name in known:
            each = known[name]
            words = f"{name}: {counted(each.left, 'pod')} left" if each.left else f"{name}: empty"
            words += f"; {each.message}" * bool(each.message)
            words += f"; blocked: {abbreviated_list(each.blocked)}" * bool(each.blocked)
        else:
            words = f"{name}: has the maintenance label, but the daemon has not reported on it yet"
        yield from _field_lines(terminal, "" if place else "Maintenance", words)


def _evictions(found: ObservedStatus, terminal: Terminal) -> Iterator[str]:
    """What remains of drains by other clients, by node."""
    by_node: dict[str, list[Object]] = {}
    for item in found.running:
        if item["spec"].get("strategy") == EVICTION:
            by_node.setdefault(str(item["spec"].get("sourceNode")), []).append(item)
    for place, (node, items) in enumerate(sorted(by_node.items())):
        moving = sum(bool((item.get("status") or {}).get("phase") == "InProgress") for item in items)
        words = (
            f"{node}: {counted(len(items), 'pod')} left to move before eviction, "
            f"{moving} moving, {len(items) - moving} waiting; {items[0]['spec'].get('reason', '')}"
        )
        yield from _field_lines(terminal, "" if place else "Evictions", words)


def _migrations(found: ObservedStatus, terminal: Terminal, now: datetime) -> Iterator[str]:
    if found.migrations is None:
        yield from _field_lines(terminal, "Migrations", "the PodMigration CRD is not installed", bad=True)
        return
    for title, items in (("In progress", found.running), ("Recent", found.recent)):
        if items:
            yield ""
            yield terminal.bold(title)
            yield from migration_list_lines(items, terminal, now)
    if not found.migrations:
        yield from _field_lines(terminal, "Migrations", "none")


def _field_lines(terminal: Terminal, title: str, words: str, *, bad: bool = False) -> Iterator[str]:
    first = f"{title:<13}"
    lines: list[str] = []
    for line in words.splitlines():
        lines += wrapped(terminal, line.strip(), first=_INDENT if lines else first, indent=_INDENT)
    if bad and terminal.colour:
        lines = [line[:13] + terminal.styled(line[13:], {"fg": "yellow"}) for line in lines]
    yield from lines


def _ago(moment: datetime, now: datetime) -> str:
    return f"{_elapsed(moment, now)} ago"


def _elapsed(moment: datetime, now: datetime) -> str:
    return short_duration(timedelta(seconds=max(0, round((now - moment).total_seconds()))))


# -- as JSON


def status_document(found: ObservedStatus, now: datetime) -> dict[str, Any]:
    """Return the same as `status_lines`, for JSON."""
    status = found.status or DaemonStatus()
    document: dict[str, Any] = msgspec.to_builtins(status)
    return {
        "namespace": found.namespace,
        "leader": found.leads(now),
        "pause": msgspec.to_builtins(found.pause),
        "nodes": {"total": found.nodes, "notReady": found.not_ready},
        **{name: value for name, value in document.items() if name != "leader"},
        "nodesWithMaintenanceLabel": list(found.in_maintenance),
        "migrations": {"running": found.running, "recent": found.recent},
    }
