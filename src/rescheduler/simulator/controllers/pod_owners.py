"""What controllers have in common whose objects own pods: who is woken by a pod, and whose pods are whose."""

from collections.abc import Iterable, Mapping

from rescheduler.model.selectors import Selector
from rescheduler.simulator.controllers.frame import Controller, Noticed, World
from rescheduler.simulator.controllers.ownership import Claims
from rescheduler.simulator.controllers.pods import OwnerReference, Pod
from rescheduler.simulator.controllers.selector_index import SelectorIndex
from rescheduler.simulator.controllers.templates import pod_from_template
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.kinds import Kind
from rescheduler.simulator.store import Change, key_of

__all__ = ["PodOwner"]


class PodOwner(Controller):
    owner: tuple[str, str]
    """API version and kind of the objects that own the pods."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.owner_kind: Kind = self.kind(*self.owner)
        self._selectors = SelectorIndex(world.store.collection(self.owner_kind).ordered())

    def watches(self) -> Mapping[Kind, Noticed]:
        return {self.owner_kind: self._owner_changed}

    def _owner_changed(self, change: Change) -> None:
        self._selectors.update(change)
        self.enqueue(change)

    def pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        old = before.controller if before is not None else None
        new = after.controller if after is not None else None
        if before is not None and old is not None and (new is None or new.uid != old.uid):
            self._wake(before.namespace, old)
        if after is None:
            return
        if new is not None:
            self._wake(after.namespace, new)
        elif before is None or old is not None or before.labels != after.labels:
            # An orphan may be anyone's, and only what can change whose it is matters.
            for key in self._selectors.matching(after.namespace, after.labels):
                self.queue.add(key)

    def _wake(self, namespace: str, reference: OwnerReference) -> None:
        if reference.kind == self.owner_kind.name and reference.api_version == self.owner_kind.api_version:
            self.queue.add(key_of(namespace, reference.name))

    def candidates(self, owner: Object) -> list[Pod]:
        """The owner's pods, and those without any."""
        metadata = owner["metadata"]
        return [
            *self.world.pods.controlled_by(metadata["uid"]),
            *self.world.pods.orphans(metadata["namespace"]),
        ]

    async def claim(self, owner: Object, selector: Selector, candidates: Iterable[Pod]) -> list[Pod]:
        claims = Claims(
            self.writes,
            self.world.store,
            owner_kind=self.owner_kind,
            owner=owner,
            claimed_kind=self.world.pod_kind,
        )
        return await claims.of_pods(candidates, selector)

    async def create_pod(self, owner: Object, template: Object) -> Object:
        pod = pod_from_template(template, self.owner_kind, owner)
        return await self.writes.create(self.world.pod_kind, owner["metadata"]["namespace"], pod)

    async def delete_pod(self, pod: Pod) -> bool:
        return await self.writes.delete(self.world.pod_kind, pod.namespace, pod.name, pod.uid)
