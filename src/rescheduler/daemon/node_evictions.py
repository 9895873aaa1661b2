"""Evict pods that must leave their node and that are not moved.

There are two kinds. If another component handles the eviction of a pod, as KubeVirt does for virtual
machines, the pod is evicted as soon as its node is being emptied: the component answers 429, moves it, and
removes the pod. At the deadline of an evacuated node, every pod that is left is evicted, within its
budget.

Karpenter removes nodes by force, whatever budgets and webhooks say: at the end of the
`terminationGracePeriod` it deletes what still runs there. So pods must be moved before. `NodeClaimWatch`
reads these deadlines from NodeClaims, as soon as there is a node of Karpenter: most clusters don't have this
kind.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from rescheduler.api.well_known_names import KARPENTER_NODE_POOL_LABEL
from rescheduler.cluster.node_record import NodeRecord, evacuation_of, in_maintenance
from rescheduler.cluster.pod_record import PodRecord, handles_own_eviction
from rescheduler.cluster.snapshot import Snapshot, evacuations, profile_of
from rescheduler.cluster.sources.watched_objects import WatchedObjects, nested_field
from rescheduler.config.policy import Policy
from rescheduler.daemon.listeners import CheckReport, DaemonListener
from rescheduler.kube import errors
from rescheduler.kube.api_resources import ApiResource, Object, ObjectIdentity
from rescheduler.kube.client import Client
from rescheduler.kube.codecs.codec import JsonCodec
from rescheduler.kube.event_recorder import EventRecorder, InvolvedObject, log_event
from rescheduler.kube.informer import Informer
from rescheduler.kube.work_queue import background_task
from rescheduler.migrations.runtime_state import RuntimeStateHolder
from rescheduler.planner.maintenance_status import must_leave_node
from rescheduler.planner.protections.eligibility import Eligibility
from rescheduler.planner.reasons import ALWAYS_PROTECTED, Reason
from rescheduler.strategies.node_maintenance import NodeMaintenance

__all__ = [
    "DueEviction",
    "EvictionCause",
    "EvictionResult",
    "NodeClaimWatch",
    "NodeEvictions",
    "due_evictions",
    "evacuation_deadlines",
    "evict_pod",
]

log: Final = logging.getLogger(__name__)

_RETRY_S: Final = 5.0
"""Seconds until the next try, as in `kubectl drain`."""

_KEPT: Final = ALWAYS_PROTECTED | {
    Reason.DAEMON_SET_POD,
    Reason.FINISHED,
    Reason.TERMINATING,
    Reason.UNSCHEDULED,
    Reason.NODE_UNKNOWN,
    Reason.GATED,
}
"""Reasons not to evict a pod: it is protected, belongs to its node, or is not there any more."""


class EvictionCause(StrEnum):
    DEADLINE = "Deadline"
    """The pod's node is evacuated, and the deadline has passed."""
    HANDLED = "EvictionHandled"
    """Another component moves the pod when it is evicted."""


class EvictionResult(StrEnum):
    EVICTED = "evicted"
    IN_PROGRESS = "in_progress"
    """Another component moves the pod, and removes it afterwards."""
    REFUSED = "refused"
    GONE = "gone"


class DueEviction(NamedTuple):
    pod: str
    uid: str
    node: str
    at_s: float
    cause: EvictionCause


def evacuation_deadlines(snapshot: Snapshot, policy: Policy) -> dict[str, datetime]:
    """Return when the pods of evacuated nodes are evicted without a move, by node."""
    return {
        name: datetime.fromtimestamp(evacuation.deadline_s, UTC)
        for name, evacuation in evacuations(snapshot, policy).items()
        if evacuation.deadline_s is not None
    }


def due_evictions(
    snapshot: Snapshot, policy: Policy, *, maintained: bool = True, only: Collection[str] | None = None
) -> list[DueEviction]:
    """Return which pods to evict without a move, and when, the earliest first.

    `maintained` says whether nodes in maintenance are emptied; `only` names nodes that a drain empties.
    """
    found: list[DueEviction] = []
    eligibility: dict[int, Eligibility] = {}
    evacuated = evacuations(snapshot, policy)
    for row, node in enumerate(snapshot.nodes.records):
        evacuation = evacuated.get(node.name)
        is_emptied = evacuation is not None or (maintained and in_maintenance(node))
        if not (is_emptied if only is None else node.name in only):
            continue
        deadline_s = None if evacuation is None else evacuation.deadline_s
        for pod_row in snapshot.pods.on(row).tolist():
            pod = snapshot.pods.records[pod_row]
            for at_s, cause in _dates(pod, snapshot.taken_at_s, deadline_s):
                profile = profile_of(snapshot, policy, pod.namespace, pod.node)
                if id(profile) not in eligibility:
                    eligibility[id(profile)] = Eligibility(snapshot, profile, urgent=True)
                if not _KEPT & {each.reason for each in eligibility[id(profile)].refusals(pod_row)}:
                    found.append(DueEviction(pod.key, pod.uid, node.name, at_s, cause))
    return sorted(found, key=lambda each: (each.at_s, each.pod))


def _dates(pod: PodRecord, now_s: float, deadline_s: float | None) -> Iterator[tuple[float, EvictionCause]]:
    """Yield when and why to evict the pod, if at all. Nothing would replace a pod without a controller."""
    if not must_leave_node(pod) or pod.is_terminating or pod.owner is None:
        return
    if handles_own_eviction(pod):
        yield now_s, EvictionCause.HANDLED
    elif deadline_s is not None:
        yield deadline_s, EvictionCause.DEADLINE


async def evict_pod(client: Client, due: DueEviction, grace_s: int | None) -> tuple[EvictionResult, str]:
    """Evict a pod; return the result, and what the server said. Raises `KubeError` for other errors."""
    try:
        await client.evict(due.pod, uid=due.uid, grace_s=grace_s)
    except errors.EvictionDeferred as deferred:
        return EvictionResult.IN_PROGRESS, deferred.why
    except (errors.BudgetRefused, errors.MultipleBudgets) as refusal:
        return EvictionResult.REFUSED, refusal.why
    except (errors.NotFound, errors.Conflict):
        return EvictionResult.GONE, ""
    return EvictionResult.EVICTED, ""


class NodeEvictions(DaemonListener):
    """Evicts the pods that are due while `running`. Every check determines again which pods those are."""

    def __init__(
        self,
        client: Client,
        watched: WatchedObjects,
        runtime: RuntimeStateHolder,
        events: EventRecorder,
        now: Callable[[], datetime],
    ) -> None:
        self.listener: DaemonListener = self
        """Receives each eviction."""
        self._client = client
        self._watched = watched
        self._runtime = runtime
        self._events = events
        self._now = now
        self._snapshot: Snapshot | None = None
        self._due: list[DueEviction] = []
        self._last_results: dict[str, tuple[EvictionResult, str]] = {}
        """The last result for each pod, by uid. A result is reported when it changes."""
        self._changed = asyncio.Event()

    def checked(self, check: CheckReport) -> None:
        self._snapshot = check.snapshot
        self._changed.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with background_task(self._evict_for_ever(), "node evictions"):
            yield

    async def _evict_for_ever(self) -> None:
        while True:
            await self._wait()
            if (snapshot := self._snapshot) is not None:
                self._snapshot = None
                policy = self._runtime.current.policy
                maintained = policy.enables(NodeMaintenance.name)
                # This checks every pod of these nodes, so it runs in a thread, like planning.
                self._due = await asyncio.to_thread(due_evictions, snapshot, policy, maintained=maintained)
                self._last_results = {
                    each.uid: self._last_results[each.uid]
                    for each in self._due
                    if each.uid in self._last_results
                }
            for each in [each for each in self._due if each.at_s <= self._now().timestamp()]:
                await self._evict(each)

    async def _wait(self) -> None:
        """Wait for a check, or until the next eviction is due or to be tried again."""
        now_s = self._now().timestamp()
        next_s = min((max(each.at_s - now_s, 0.0) or _RETRY_S for each in self._due), default=None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(next_s):
                await self._changed.wait()
        self._changed.clear()

    @property
    def _may_act(self) -> bool:
        state = self._runtime.current
        halted = any(halt.reason.stops_safe_evictions for halt in state.cluster_halts)
        return not (state.policy.dry_run or state.is_stopping or halted)

    def _is_still_due(self, due: DueEviction) -> bool:
        pod, node = self._watched.pods.get(due.pod), self._watched.nodes.get(due.node)
        if pod is None or pod.uid != due.uid or pod.is_terminating or node is None:
            return False
        evacuated = evacuation_of(node, self._runtime.current.policy.evacuate_on, self._now().timestamp())
        return evacuated is not None or (due.cause is EvictionCause.HANDLED and in_maintenance(node))

    async def _evict(self, due: DueEviction) -> None:
        if not self._may_act:
            return
        if not self._is_still_due(due):
            self._due.remove(due)
            return
        try:
            grace_s = self._runtime.current.policy.grace_period_seconds
            result, why = await evict_pod(self._client, due, grace_s)
        except errors.KubeError as error:
            log_event(
                log,
                logging.WARNING,
                "NodeEvictionFailed",
                f"{error} The eviction will be retried.",
                pod=due.pod,
            )
            return
        self._report(due, result, why)
        if result in {EvictionResult.EVICTED, EvictionResult.GONE}:
            self._due.remove(due)

    def _report(self, due: DueEviction, result: EvictionResult, why: str) -> None:
        if self._last_results.get(due.uid) == (result, why) or result is EvictionResult.GONE:
            return
        self._last_results[due.uid] = result, why
        self.listener.node_evicted(due.cause, result)
        event, words = _words(due, result, why)
        log_event(log, logging.INFO, event, words, pod=due.pod, node=due.node)
        self._events.record(
            InvolvedObject.of_node(due.node), event, words, warning=result is EvictionResult.REFUSED
        )


def _words(due: DueEviction, result: EvictionResult, why: str) -> tuple[str, str]:
    match result:
        case EvictionResult.IN_PROGRESS:
            return "EvictionInProgress", f"pod {due.pod} is moved by another component: {why}"
        case EvictionResult.REFUSED:
            return "EvictionRefused", f"pod {due.pod} can't be evicted now, and will be retried: {why}"
        case _:
            cause = (
                "at the deadline of its node"
                if due.cause is EvictionCause.DEADLINE
                else "because its node is being emptied"
            )
            return "PodEvicted", f"pod {due.pod} was evicted without a move {cause}"


_TERMINATION_TIMESTAMP: Final = "karpenter.sh/nodeclaim-termination-timestamp"
_POD_GRACE_PERIOD: Final = timedelta(seconds=30)
"""Karpenter deletes a pod this long before the node's end, by default: the pod's grace period."""


@dataclass(frozen=True, slots=True)
class _NodeClaim:
    name: str
    uid: str
    resource_version: str
    node: str
    removed_at: datetime | None
    """When Karpenter deletes its pods; None if it has no deadline."""


def _read_claim(raw: bytes | msgspec.Raw) -> _NodeClaim:
    item: Object = msgspec.json.decode(raw, type=Object)
    metadata = item["metadata"]
    written = nested_field(item, "metadata", "annotations", _TERMINATION_TIMESTAMP)
    try:
        removed_at = datetime.fromisoformat(written) - _POD_GRACE_PERIOD if written else None
    except (TypeError, ValueError, OverflowError):
        removed_at = None
    if removed_at is not None and removed_at.tzinfo is None:
        removed_at = None
    return _NodeClaim(
        metadata["name"],
        metadata.get("uid", ""),
        metadata.get("resourceVersion", ""),
        str(nested_field(item, "status", "nodeName") or ""),
        removed_at,
    )


_NODE_CLAIMS: Final = ApiResource(
    "karpenter.sh", "v1", "nodeclaims", "NodeClaim", False,
    JsonCodec("nodeclaims", _read_claim, lambda each: each.resource_version),
    lambda each: ObjectIdentity(each.name, each.uid, each.resource_version),
)  # fmt: skip


class NodeClaimWatch:
    """Keeps `node_deadlines` of the runtime state up to date."""

    def __init__(self, client: Client, nodes: Informer[NodeRecord], runtime: RuntimeStateHolder) -> None:
        self._runtime = runtime
        self._has_nodes = asyncio.Event()
        self._claims = Informer(client, _NODE_CLAIMS)
        nodes.subscribe(self._node_changed)
        self._claims.subscribe(self._claim_changed)

    async def run(self) -> None:
        await self._has_nodes.wait()
        await self._claims.run()

    def _node_changed(self, _old: NodeRecord | None, new: NodeRecord | None) -> None:
        if new is not None and KARPENTER_NODE_POOL_LABEL in new.labels:
            self._has_nodes.set()

    def _claim_changed(self, old: _NodeClaim | None, new: _NodeClaim | None) -> None:
        before, now = (
            {} if each is None or not each.node or each.removed_at is None else {each.node: each.removed_at}
            for each in (old, new)
        )
        if before != now:
            known = self._runtime.current.node_deadlines
            rest = {node: moment for node, moment in known.items() if node not in before}
            self._runtime.update(node_deadlines=rest | now)
