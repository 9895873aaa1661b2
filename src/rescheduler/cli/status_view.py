"""The status of the daemon, as text and as JSON, and the rows of `top` with the protocol of their source."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import msgspec

from rescheduler.api.daemon_status import DaemonStatus, Pause
from rescheduler.api.podmigration import EVICTION
from rescheduler.cli.migrations_view import LiveSteps, migration_list_lines
from rescheduler.cli.terminal import Terminal, abbreviated_list, counted, rounded_duration, wrapped
from rescheduler.cluster.node_record import NodeCondition
from rescheduler.kube.leader_election import LeaseRecord

__all__ = [
    "MoveRow",
    "NodeRow",
    "ObservedStatus",
    "TopSource",
    "TopState",
    "autoscaler_title",
    "sorted_nodes",
    "status_document",
    "status_lines",
]

Object = dict[str, Any]

NOTHING_MOVES: Final = (
    "Nothing makes these moves now, because no process leads. To finish them, run: rescheduler migrations "
    "--resume"
)
_RECENT: Final = 10
"""The number of finished migrations that are listed."""
_UNKNOWN: Final = "unknown: you have no permission to read it"
_INDENT: Final = " " * 13
_AUTOSCALER_TITLES: Final = {
    "karpenter": "Karpenter",
    "clusterAutoscaler": "cluster autoscaler",
    "other": "another component",
}


@dataclass(frozen=True, slots=True)
class ObservedStatus:
    """The status of the daemon, as stored in the cluster."""

    namespace: str
    pause: Pause
    status: DaemonStatus | None
    """The status that the leader wrote; None if no leader has written one."""
    lease: LeaseRecord
    migrations: Sequence[Object] | None
    """None if the cluster has no PodMigration CRD."""
    in_maintenance: Mapping[str, NodeCondition | None]
    """Nodes with the maintenance label and their condition Empty, even if the daemon has not seen them."""
    nodes: int = 0
    not_ready: int = 0
    live: LiveSteps | None = None
    installation: tuple[str, ...] = ()
    """The installed components and their states, as sentences."""
    permissions: tuple[str, ...] = ()
    """The permissions of the user, as sentences."""
    unknown: frozenset[str] = frozenset()
    """What the user may not read: `state`, `lease`, `migrations`, `nodes`."""
    label_gone: Mapping[str, NodeCondition] = field(default_factory=dict)
    """Nodes that still have the condition Empty, but no longer the maintenance label."""

    @property
    def running(self) -> list[Object]:
        return [item for item in self._by_age() if not _finished_at(item)]

    @property
    def recent(self) -> list[Object]:
        """Return the migrations that finished last, newest first."""
        return sorted(filter(_finished_at, self._by_age()), key=_finished_at, reverse=True)[:_RECENT]

    def _by_age(self) -> list[Object]:
        return sorted(self.migrations or (), key=lambda item: item["metadata"]["creationTimestamp"])

    def leads(self, now: datetime) -> str:
        """Return the holder of the Lease if it still renews it, else an empty string."""
        renewed, holder = self.lease.renewed, self.lease.holder
        # The time is from the clock of another machine. The result is only shown: a small error does no harm.
        is_alive = renewed is not None and now - renewed < timedelta(seconds=2 * self.lease.lasts_s + 5)
        return holder if holder and is_alive else ""

    def daemon_leads(self, now: datetime) -> bool | None:
        """Return whether the leader is a daemon and not a command; None if the user may not know.

        Only a daemon writes the status. It does so as soon as it leads, with the name that is in the Lease.
        """
        holder = self.leads(now)
        if "lease" in self.unknown or (holder and "state" in self.unknown):
            return None
        return bool(holder) and self.status is not None and self.status.leader == holder


def _finished_at(item: Object) -> str:
    return str((item.get("status") or {}).get("finishedAt") or "")


# -- as text


def status_lines(observed: ObservedStatus, terminal: Terminal, now: datetime) -> Iterator[str]:
    """Yield the lines that `rescheduler status` prints."""
    yield from _installation(observed, terminal)
    yield from _leader(observed, terminal, now)
    yield from _check(observed, terminal, now)
    yield from _dry_run(observed, terminal, now)
    yield from _halts(observed, terminal, now)
    yield from _cluster(observed, terminal)
    yield from _autoscalers(observed, terminal)
    yield from _failing_lines(observed, terminal)
    yield from _maintenance(observed, terminal, now)
    yield from _evictions(observed, terminal)
    yield from _migrations(observed, terminal, now)


def _installation(observed: ObservedStatus, terminal: Terminal) -> Iterator[str]:
    yield from _list_lines(terminal, "Installed", observed.installation)
    yield from _list_lines(terminal, "Permissions", observed.permissions)


def _leader(observed: ObservedStatus, terminal: Terminal, now: datetime) -> Iterator[str]:
    holder, lease, dry_run = observed.leads(now), observed.lease, observed.status and observed.status.dry_run
    if holder:
        kind = ", a command and no daemon" if observed.daemon_leads(now) is False else ""
        words = f"{holder}{kind}, renewed {_ago(lease.renewed or now, now)}"
    elif observed.status is not None and dry_run is not None:
        words = f"none: dry run, reported by {observed.status.leader}"
    elif lease.holder:
        words = f"none: {lease.holder} stopped renewing the Lease"
        words += f", last renewed {_ago(lease.renewed, now)}" if lease.renewed else ""
    else:
        words = _UNKNOWN if "lease" in observed.unknown else f"none in namespace {observed.namespace}"
    yield from _field_lines(terminal, "Leader", words, bad=not holder and dry_run is None)
    if observed.status is not None:
        yield from _field_lines(terminal, "Version", observed.status.version)
    if observed.status is not None and observed.status.configuration:
        words = f"invalid change ignored: {observed.status.configuration}"
        yield from _field_lines(terminal, "Config", words, bad=True)


def _check(observed: ObservedStatus, terminal: Terminal, now: datetime) -> Iterator[str]:
    check = None if observed.status is None else observed.status.last_check
    if check is None:
        words = _UNKNOWN if "state" in observed.unknown else "none yet"
        yield from _field_lines(terminal, "Last check", words)
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
    yield from _list_lines(terminal, "", check.assumptions)
    yield from _list_lines(terminal, "Limits", check.limits)


def _dry_run(observed: ObservedStatus, terminal: Terminal, now: datetime) -> Iterator[str]:
    evidence = None if observed.status is None else observed.status.dry_run
    if evidence is None:
        return
    days = (now - evidence.since).days
    span = counted(days, "day") if days else rounded_duration(now - evidence.since)
    words = f"would have moved {counted(evidence.moves, 'pod')} in {span}"
    spreads = [
        f"{each.resource} {each.before:.0f} {terminal.arrow} {each.after:.0f}" for each in evidence.spreads
    ]
    words += f", spread {', '.join(spreads)} points" * bool(spreads)
    yield from _field_lines(terminal, "Dry run", f"{words}. Nothing is moved.")
    yield from _field_lines(
        terminal, "", "To move pods: set dryRun to false (Helm: --set dryRun=false; manifests --execute)."
    )


def _halts(observed: ObservedStatus, terminal: Terminal, now: datetime) -> Iterator[str]:
    halts = () if observed.status is None else observed.status.halts
    for halt in halts:
        words = f"{halt.reason} for {rounded_duration(now - halt.since)}: {halt.words}. Ends: {halt.ends}."
        yield from _field_lines(terminal, "Halted", words, bad=True)
    if observed.pause.paused and not any(halt.reason == "Paused" for halt in halts):
        by = f" by {observed.pause.by}" if observed.pause.by else ""
        why = f": {observed.pause.why}" if observed.pause.why else ""
        runs = observed.status is not None or observed.leads(now)
        then = "the daemon has not confirmed it yet" if runs else "it applies as soon as a daemon runs"
        yield from _field_lines(terminal, "Paused", f"requested{by}{why}; {then}", bad=True)
    if not halts and not observed.pause.paused:
        yield from _field_lines(terminal, "Halts", _UNKNOWN if "state" in observed.unknown else "none")


def _cluster(observed: ObservedStatus, terminal: Terminal) -> Iterator[str]:
    words = _UNKNOWN if "nodes" in observed.unknown else f"{observed.nodes}, {observed.not_ready} not Ready"
    yield from _field_lines(terminal, "Nodes", words, bad=observed.not_ready > 0)
    for place, each in enumerate(observed.status.balance if observed.status else ()):
        words = (
            f"{each.resource}: mean {each.mean:.1f}%, from {each.least.percent:.1f}% ({each.least.node}) "
            f"to {each.most.percent:.1f}% ({each.most.node}), spread {each.spread:.1f}"
        )
        yield from _field_lines(terminal, "" if place else "Balance", words)


def autoscaler_title(name: str) -> str:
    return _AUTOSCALER_TITLES.get(name, name)


def _autoscalers(observed: ObservedStatus, terminal: Terminal) -> Iterator[str]:
    """Yield the lines about components that remove nodes, which the strategies take into account."""
    if observed.status is None or observed.status.last_check is None:
        return
    found = [f"{autoscaler_title(each.name)}: {each.how}" for each in observed.status.autoscalers]
    yield from _list_lines(terminal, "Autoscalers", found or ["none found"])


def _failing_lines(observed: ObservedStatus, terminal: Terminal) -> Iterator[str]:
    status = observed.status or DaemonStatus()
    for place, pod in enumerate(status.failing):
        words = f"{pod.pod} on {pod.node}: {pod.why}, attempt {pod.tries} of {pod.allowed}"
        words += f"; {pod.message}" * bool(pod.message)
        yield from _field_lines(terminal, "" if place else "Failing", words)
    for place, node in enumerate(status.suspects):
        words = f"{node.node}: {counted(node.workloads, 'workload')} failing there"
        words += f"; {node.why}" * bool(node.why)
        yield from _field_lines(terminal, "" if place else "Suspect", words, bad=True)


def _maintenance(observed: ObservedStatus, terminal: Terminal, now: datetime) -> Iterator[str]:
    status = observed.status or DaemonStatus()
    known = {each.node: each for each in status.maintenance}
    conditions = {**observed.label_gone, **observed.in_maintenance}
    # The last status of a daemon that no longer runs may be outdated.
    names = {*conditions, *(known if observed.leads(now) else ())}
    active = {*known} if status.halts else {item["spec"].get("sourceNode") for item in observed.running}
    for place, name in enumerate(sorted(names)):
        condition = conditions.get(name)
        if name in known:
            each = known[name]
            left = f"{counted(each.left, 'pod')} left" if each.left else "empty"
            has_count = "still there" in each.message or each.message == "empty"
            words = f"{name}: " + "; ".join(filter(None, (left * (not has_count), each.message)))
            words += f"; blocked: {abbreviated_list(each.blocked)}" * bool(each.blocked)
        elif condition is not None:
            # A command drains or has drained the node, maybe without a daemon.
            words = f"{name}: {condition.message or condition.reason}"
        else:
            words = f"{name}: has the maintenance label, but the daemon has not reported on it yet"
        is_empty = not known[name].left if name in known else condition and condition.status == "True"
        is_idle = not observed.leads(now) and (name in observed.label_gone or not is_empty)
        if is_idle or (name in known and known[name].has_movable_pods and name not in active):
            why = "Nothing drains it now" if is_idle else "No move from it is in progress"
            words += f". {why}. To continue, run `rescheduler drain {name}`; to return it to service, run "
            words += f"`rescheduler undrain {name}`"
        yield from _field_lines(terminal, "" if place else "Maintenance", words)


def _evictions(observed: ObservedStatus, terminal: Terminal) -> Iterator[str]:
    """Yield the lines about drains by other clients, with the pods left to move by node."""
    by_node: dict[str, list[Object]] = {}
    for item in observed.running:
        if item["spec"].get("strategy") == EVICTION:
            by_node.setdefault(str(item["spec"].get("sourceNode")), []).append(item)
    for place, (node, items) in enumerate(sorted(by_node.items())):
        moving = sum(bool((item.get("status") or {}).get("phase") == "InProgress") for item in items)
        words = (
            f"{node}: {counted(len(items), 'pod')} left to move before eviction, "
            f"{moving} moving, {len(items) - moving} waiting; {items[0]['spec'].get('reason', '')}"
        )
        yield from _field_lines(terminal, "" if place else "Evictions", words)


def _migrations(observed: ObservedStatus, terminal: Terminal, now: datetime) -> Iterator[str]:
    for title, items in (("In progress", observed.running), ("Recent", observed.recent)):
        if items:
            yield from ("", terminal.bold(title))
            yield from migration_list_lines(items, terminal, now, observed.live)
        if items and title == "In progress" and not observed.leads(now):
            yield from wrapped(terminal, NOTHING_MOVES, indent="")
    if observed.migrations is not None and not observed.migrations:
        words = _UNKNOWN if "migrations" in observed.unknown else "none"
        yield from _field_lines(terminal, "Migrations", words)


def _list_lines(terminal: Terminal, title: str, sentences: Sequence[str]) -> Iterator[str]:
    for place, words in enumerate(sentences):
        yield from _field_lines(terminal, "" if place else title, words)


def _field_lines(terminal: Terminal, title: str, words: str, *, bad: bool = False) -> Iterator[str]:
    first = f"{title:<13}"
    lines: list[str] = []
    for line in words.splitlines():
        lines += wrapped(terminal, line.strip(), first=_INDENT if lines else first, indent=_INDENT)
    if bad and terminal.colour:
        lines = [line[:13] + terminal.styled(line[13:], {"fg": "yellow"}) for line in lines]
    yield from lines


def _ago(moment: datetime, now: datetime) -> str:
    return f"{rounded_duration(now - moment)} ago"


# -- as JSON


def status_document(observed: ObservedStatus, now: datetime) -> dict[str, Any]:
    """Return the same as `status_lines`, for JSON."""
    status = observed.status or DaemonStatus()
    return {
        "namespace": observed.namespace,
        "leader": observed.leads(now),
        "pause": msgspec.to_builtins(observed.pause),
        "nodes": {"total": observed.nodes, "notReady": observed.not_ready},
        **{name: value for name, value in msgspec.to_builtins(status).items() if name != "leader"},
        "nodesWithMaintenanceLabel": sorted(observed.in_maintenance),
        "installation": list(observed.installation),
        "permissions": list(observed.permissions),
        "migrations": {"running": observed.running, "recent": observed.recent},
    }


# -- as rows of `rescheduler top`


@dataclass(frozen=True, slots=True)
class NodeRow:
    name: str
    cpu: float
    """Percent of allocatable, as is `memory`."""
    memory: float
    pods: int
    state: str
    """The state in words, such as `Ready, cordoned`."""


@dataclass(frozen=True, slots=True)
class MoveRow:
    key: str
    """The key of the PodMigration."""
    status: str
    """The progress in words, such as `copy ready, settling 6/10 s`."""
    age: str
    nodes: str
    """Source and target: `worker-1 → worker-2`."""
    reason: str
    is_finished: bool


@dataclass(frozen=True, slots=True)
class TopState:
    """The state that the screen shows at one moment."""

    summary: tuple[str, ...] = ()
    """Leader, dry run, halts and balance."""
    nodes: tuple[NodeRow, ...] = ()
    moves: tuple[MoveRow, ...] = ()
    """Unfinished moves first, then the moves that finished last."""


class TopSource(Protocol):
    """Provides the state that the screen shows, and executes the user's requests.

    `width` is the maximum number of columns of the returned lines.
    """

    async def current_state(self) -> TopState: ...

    async def explain_node(self, name: str, width: int) -> Sequence[str]: ...

    async def explain_pod(self, key: str, width: int) -> Sequence[str]: ...

    async def show_move(self, key: str, width: int) -> Sequence[str]:
        """Return the details of a PodMigration."""
        ...

    async def plan(self, width: int) -> Sequence[str]: ...

    async def pods_on(self, node: str) -> Sequence[str]:
        """Return the keys of the pods on the node."""
        ...

    async def pause(self) -> str: ...

    async def resume(self) -> str: ...

    async def cancel(self, migration: str) -> str: ...


def sorted_nodes(nodes: Sequence[NodeRow], by: str, wanted: str) -> list[NodeRow]:
    """Return the nodes whose name contains `wanted`, sorted by load with the highest first, or by name."""
    found = [node for node in nodes if wanted.lower() in node.name.lower()]
    if by == "name":
        return sorted(found, key=lambda node: node.name)
    return sorted(found, key=lambda node: (-getattr(node, by), node.name))
