"""ReplicaSets: as many pods as asked for, no more and no fewer."""

import asyncio
from collections.abc import Awaitable, Callable

from rescheduler.model.selectors import selector_from_labels
from rescheduler.simulator.clock import timestamp
from rescheduler.simulator.conditions import condition
from rescheduler.simulator.controllers.deletion_order import first_to_go
from rescheduler.simulator.controllers.frame import split_key
from rescheduler.simulator.controllers.ownership import is_deleting
from rescheduler.simulator.controllers.pod_owners import PodOwner
from rescheduler.simulator.controllers.pods import Pod
from rescheduler.simulator.controllers.selector_index import read_selector
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Failure

__all__ = ["ReplicaSets", "is_namespace_terminating", "slow_start"]

_BURST = 500


class ReplicaSets(PodOwner):
    name = "replicaset-controller"
    owner = ("apps/v1", "ReplicaSet")

    async def reconcile(self, key: str) -> float | None:
        replica_set = self.world.read(self.owner_kind, *split_key(key))
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
        return self._next_look(replica_set, active, status)

    async def _manage(self, replica_set: Object, active: list[Pod]) -> Failure | None:
        surplus = len(active) - replica_set["spec"]["replicas"]
        try:
            if surplus < 0:
                await slow_start(min(-surplus, _BURST), lambda: self._create_one(replica_set))
            elif surplus > 0:
                related = self._related(replica_set)
                going = first_to_go(active, related, min(surplus, _BURST), self.world.now())
                await asyncio.gather(*map(self.delete_pod, going))
        except Failure as failure:
            return failure
        return None

    async def _create_one(self, replica_set: Object) -> None:
        try:
            await self.create_pod(replica_set, replica_set["spec"]["template"])
        except Failure as failure:
            if not is_namespace_terminating(failure):
                raise

    def _related(self, replica_set: Object) -> list[Pod]:
        """Active pods that any ReplicaSet of the same controller selects: where the workload is doubled up.

        Selected, not owned, so a copy that somebody else holds counts; and none for a ReplicaSet of
        nobody's, which therefore does not look at nodes at all.
        """
        owners = replica_set["metadata"].get("ownerReferences") or ()
        owner = next((each for each in owners if each.get("controller")), None)
        if owner is None:
            return []
        siblings = [
            record.object
            for kind, record in self.world.store.dependents(owner["uid"])
            if kind == self.owner_kind
        ]
        found = {
            pod.uid: pod
            for each in siblings
            for pod in self.world.pods.selected(
                each["metadata"]["namespace"], read_selector(each["spec"].get("selector"))
            )
        }
        return [pod for pod in found.values() if pod.active]

    def _status(
        self, replica_set: Object, active: list[Pod], terminating: int, failure: Failure | None
    ) -> Object:
        spec, now = replica_set["spec"], self.world.now()
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

    def _conditions(self, replica_set: Object, active: int, failure: Failure | None) -> list[Object]:
        told = condition(replica_set.get("status", {}), "ReplicaFailure")
        others = [
            item
            for item in replica_set.get("status", {}).get("conditions") or ()
            if item["type"] != "ReplicaFailure"
        ]
        if failure is None:
            return others
        if told is not None:
            return [*others, told]  # it is not told again what it was told before
        reason = "FailedCreate" if active < replica_set["spec"]["replicas"] else "FailedDelete"
        return [
            *others,
            {
                "type": "ReplicaFailure",
                "status": "True",
                "lastTransitionTime": timestamp(self.world.now()),
                "reason": reason,
                "message": failure.message,
            },
        ]

    async def _write_status(self, replica_set: Object, status: Object) -> None:
        try:
            await self.writes.set_status(self.owner_kind, replica_set, status)
        except Failure as failure:
            if failure.code != 404:
                raise

    def _next_look(self, replica_set: Object, active: list[Pod], status: Object) -> float | None:
        """When the next pod will have been ready for `minReadySeconds`."""
        min_ready_s = replica_set["spec"].get("minReadySeconds", 0)
        if not min_ready_s or status.get("readyReplicas") == status.get("availableReplicas"):
            return None
        now = self.world.now()
        waits = [wait for pod in active if (wait := pod.available_in(min_ready_s, now))]
        return min(waits, default=float(min_ready_s))


async def slow_start(count: int, create: Callable[[], Awaitable[object]]) -> None:
    """In batches that double: what can't be created is not tried as often as it is wanted."""
    size = min(count, 1)
    while size:
        results = await asyncio.gather(*(create() for _ in range(size)), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        count -= size
        size = min(2 * size, count)


def is_namespace_terminating(failure: Failure) -> bool:
    causes = (failure.details or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
