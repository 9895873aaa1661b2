"""ReplicaSets: keep the desired number of pods, and choose which pods to delete first."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from functools import cmp_to_key
from typing import Any

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.status_errors import StatusError
from kubesim.common_fields import condition, format_timestamp, seconds_since
from kubesim.controllers.controller_base import split_key
from kubesim.controllers.owned_objects import PodOwnerController, is_deleting
from kubesim.controllers.pod_index import IndexedPod
from kubesim.controllers.selector_index import read_selector
from kubevalues import selector_from_labels

__all__ = ["ReplicaSetController", "first_to_go", "is_namespace_terminating", "slow_start"]

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_NANOS = 1_000_000_000


def first_to_go(
    pods: Iterable[IndexedPod], related: Iterable[IndexedPod], count: int, now: datetime
) -> list[IndexedPod]:
    """Return the first `count` pods in the order of deletion.

    `related` are the active pods of the same workload, including other ReplicaSets: pods on nodes with many
    of them are deleted first.
    """
    on_node: dict[str, int] = {}
    for pod in related:
        on_node[pod.node] = on_node.get(pod.node, 0) + 1

    def rank(pod: IndexedPod) -> int:
        return on_node.get(pod.node, 0)

    return sorted(pods, key=cmp_to_key(_comparison(rank, now)))[:count]


def _comparison(rank: Callable[[IndexedPod], int], now: datetime) -> Callable[[IndexedPod, IndexedPod], int]:
    def compare(one: IndexedPod, other: IndexedPod) -> int:
        for steps in (
            _sign(bool(one.node), bool(other.node)),
            _sign(_PHASES.get(one.phase, 0), _PHASES.get(other.phase, 0)),
            _sign(one.ready, other.ready),
            _sign(_deletion_cost(one), _deletion_cost(other)),
            _sign(rank(other), rank(one)),
            _younger_first(one.ready_since, other.ready_since, one, other, now) if one.ready else 0,
            _sign(_restarts(other), _restarts(one)),
            _younger_first(
                one.metadata.creation_timestamp, other.metadata.creation_timestamp, one, other, now
            ),
            _sign(one.uid, other.uid),
        ):
            if steps:
                return steps
        return 0

    return compare


def _sign(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _deletion_cost(pod: IndexedPod) -> int:
    try:
        return int(pod.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0


def _younger_first(one: str, other: str, pod: IndexedPod, other_pod: IndexedPod, now: datetime) -> int:
    """Compare by order of magnitude of the age, then by uid."""
    if one == other:
        return 0
    if not one or not other:
        return -1 if not one else 1
    return _sign(_magnitude(one, now), _magnitude(other, now)) or _sign(pod.uid, other_pod.uid)


def _magnitude(since: str, now: datetime) -> int:
    age_nanos = seconds_since(since, now) * _NANOS
    return int(math.log2(age_nanos)) if age_nanos > 0 else -1


def _restarts(pod: IndexedPod) -> tuple[int, int]:
    """Return the highest restart count of any container, then of any sidecar."""
    sidecars = {item.name for item in pod.spec.init_containers or () if item.restart_policy == "Always"}
    return (
        max((item.restart_count for item in pod.status.container_statuses or ()), default=0),
        max(
            (c.restart_count for c in pod.status.init_container_statuses or () if c.name in sidecars),
            default=0,
        ),
    )


_BURST = 500


class ReplicaSetController(PodOwnerController):
    name = "replicaset-controller"
    owner = ("apps/v1", "ReplicaSet")

    async def reconcile(self, key: str) -> float | None:
        replica_set = self.context.read(self.owner_kind, *split_key(key))
        if replica_set is None:
            return None
        selector = read_selector(replica_set["spec"].get("selector"))
        found = self.candidates(replica_set)
        active = await self.claim(replica_set, selector, [pod for pod in found if pod.active])
        uid = replica_set["metadata"]["uid"]
        terminating = sum(
            1
            for pod in found
            if pod.terminating
            and pod.controller is not None
            and pod.controller.uid == uid
            and selector.matches(pod.labels)
        )
        failure = None
        if not is_deleting(replica_set):
            failure = await self._manage(replica_set, active)
        status = self._status(replica_set, active, terminating, failure)
        await self._write_status(replica_set, status)
        if failure is not None:
            raise failure
        return self._requeue_after_s(replica_set, active, status)

    async def _manage(self, replica_set: Object, active: list[IndexedPod]) -> StatusError | None:
        surplus = len(active) - replica_set["spec"]["replicas"]
        try:
            if surplus < 0:
                await slow_start(min(-surplus, _BURST), lambda: self._create_one(replica_set))
            elif surplus > 0:
                related = self._related(replica_set)
                going = first_to_go(active, related, min(surplus, _BURST), self.context.now())
                await asyncio.gather(*map(self.delete_pod, going))
        except StatusError as failure:
            return failure
        return None

    async def _create_one(self, replica_set: Object) -> None:
        try:
            await self.create_pod(replica_set, replica_set["spec"]["template"])
        except StatusError as failure:
            if not is_namespace_terminating(failure):
                raise

    def _related(self, replica_set: Object) -> list[IndexedPod]:
        """Return the active pods that any ReplicaSet of the same controller selects.

        They are selected, not owned, so a copy with another owner counts. A ReplicaSet without a
        controller has none, and therefore ignores on which nodes its pods are.
        """
        owners = replica_set["metadata"].get("ownerReferences") or ()
        owner = next((each for each in owners if each.get("controller")), None)
        if owner is None:
            return []
        siblings = [
            record.object
            for kind, record in self.context.store.dependents(owner["uid"])
            if kind == self.owner_kind
        ]
        found = {
            pod.uid: pod
            for each in siblings
            for pod in self.context.pods.selected(
                each["metadata"]["namespace"], read_selector(each["spec"].get("selector"))
            )
        }
        return [pod for pod in found.values() if pod.active]

    def _status(
        self, replica_set: Object, active: list[IndexedPod], terminating: int, failure: StatusError | None
    ) -> Object:
        spec, now = replica_set["spec"], self.context.now()
        template = selector_from_labels((spec["template"].get("metadata") or {}).get("labels"))
        min_ready_s = spec.get("minReadySeconds", 0)
        counts = {
            "replicas": len(active),
            "fullyLabeledReplicas": sum(1 for pod in active if template.matches(pod.labels)),
            "readyReplicas": sum(1 for pod in active if pod.ready),
            "availableReplicas": sum(1 for pod in active if pod.available_in(min_ready_s, now) == 0),
        }
        status: Object = {
            name: count for name, count in counts.items() if count or name == "replicas"
        }  # the real one leaves out zeros
        status["terminatingReplicas"] = terminating
        status["observedGeneration"] = replica_set["metadata"].get("generation", 0)
        conditions = self._conditions(replica_set, len(active), failure)
        if conditions:
            status["conditions"] = conditions
        return status

    def _conditions(self, replica_set: Object, active: int, failure: StatusError | None) -> list[Object]:
        existing = condition(replica_set.get("status", {}), "ReplicaFailure")
        others = [
            item
            for item in replica_set.get("status", {}).get("conditions") or ()
            if item["type"] != "ReplicaFailure"
        ]
        if failure is None:
            return others
        if existing is not None:
            return [*others, existing]  # an existing condition is not updated
        reason = "FailedCreate" if active < replica_set["spec"]["replicas"] else "FailedDelete"
        return [
            *others,
            {
                "type": "ReplicaFailure",
                "status": "True",
                "lastTransitionTime": format_timestamp(self.context.now()),
                "reason": reason,
                "message": failure.message,
            },
        ]

    async def _write_status(self, replica_set: Object, status: Object) -> None:
        try:
            await self.writes.set_status(self.owner_kind, replica_set, status)
        except StatusError as failure:
            if failure.code != 404:
                raise

    def _requeue_after_s(self, replica_set: Object, active: list[IndexedPod], status: Object) -> float | None:
        """Return the seconds until the next pod has been ready for `minReadySeconds`."""
        min_ready_s = replica_set["spec"].get("minReadySeconds", 0)
        if not min_ready_s or status.get("readyReplicas") == status.get("availableReplicas"):
            return None
        now = self.context.now()
        waits = [wait for pod in active if (wait := pod.available_in(min_ready_s, now))]
        return min(waits, default=float(min_ready_s))


async def slow_start(count: int, create: Callable[[], Awaitable[object]]) -> None:
    """Run the calls in batches of doubling size, and stop after the first failing batch."""
    size = min(count, 1)
    while size:
        results = await asyncio.gather(*(create() for _ in range(size)), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        count -= size
        size = min(2 * size, count)


def is_namespace_terminating(failure: StatusError) -> bool:
    causes = (failure.details or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
