"""StatefulSets: run numbered pods in order, with claims that outlive them."""

import re
from dataclasses import dataclass
from datetime import datetime

from kubesim.apiserver.api_messages import Object
from kubesim.common_fields import scaled
from kubesim.controllers.controller_base import ControllerContext, split_key
from kubesim.controllers.controller_revisions import (
    REVISION_HASH,
    ControllerRevisions,
    RevisionHistory,
    template_of,
)
from kubesim.controllers.owned_objects import PodOwnerController, is_deleting, pod_from_template
from kubesim.controllers.pod_index import IndexedPod
from kubesim.controllers.selector_index import read_selector

__all__ = ["StatefulSetController"]

_NUMBERED = re.compile(r"(.*)-([0-9]+)")
POD_NAME, POD_INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"


def _identity(pod: IndexedPod) -> tuple[str, int]:
    """Return the name of the set and the ordinal of a pod, or -1 if it has none."""
    parts = _NUMBERED.fullmatch(pod.name)
    return (parts[1], int(parts[2])) if parts else ("", -1)


def _ordinal(pod: IndexedPod) -> int:
    return _identity(pod)[1]


@dataclass(frozen=True)
class _Members:
    """The pods of one StatefulSet."""

    content: Object
    pods: list[IndexedPod]
    history: RevisionHistory
    now: datetime

    @property
    def spec(self) -> Object:
        spec: Object = self.content["spec"]
        return spec

    @property
    def ordinals(self) -> range:
        start = (self.spec.get("ordinals") or {}).get("start", 0)
        return range(start, start + self.spec["replicas"])

    @property
    def wanted(self) -> list[tuple[int, IndexedPod | None]]:
        by_number = {_ordinal(pod): pod for pod in self.pods}
        return [(ordinal, by_number.get(ordinal)) for ordinal in self.ordinals]

    @property
    def surplus(self) -> list[IndexedPod]:
        """Return the pods to remove, the highest ordinal first."""
        found = [pod for pod in self.pods if _ordinal(pod) not in self.ordinals]
        return sorted(found, key=_ordinal, reverse=True)

    @property
    def in_order(self) -> bool:
        policy: str = self.spec.get("podManagementPolicy", "OrderedReady")
        return policy != "Parallel"

    @property
    def current(self) -> Object:
        name = self.content.get("status", {}).get("currentRevision", "")
        return self.history.named(name) or self.history.latest

    def is_available(self, pod: IndexedPod | None) -> bool:
        return pod is not None and pod.available_in(self.spec.get("minReadySeconds", 0), self.now) == 0

    def is_unavailable(self, pod: IndexedPod | None) -> bool:
        return pod is None or pod.deleting or not self.is_available(pod)

    def is_updated(self, pod: IndexedPod) -> bool:
        name: str = self.history.latest["metadata"]["name"]
        return pod.labels.get(REVISION_HASH) == name

    @property
    def first_unhealthy(self) -> IndexedPod | None:
        pods = [*(pod for _, pod in self.wanted if pod is not None), *reversed(self.surplus)]
        return next((pod for pod in pods if self.is_unavailable(pod)), None)


class StatefulSetController(PodOwnerController):
    name = "statefulset-controller"
    owner = ("apps/v1", "StatefulSet")

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._claims = self.kind("v1", "PersistentVolumeClaim")
        self._revisions = ControllerRevisions(
            context, self.writes, self.owner_kind, "controller.kubernetes.io/hash"
        )

    async def reconcile(self, key: str) -> float | None:
        content = self.context.read(self.owner_kind, *split_key(key))
        if content is None:
            return None
        name = content["metadata"]["name"]
        selector = read_selector(content["spec"].get("selector"))
        candidates = [pod for pod in self.candidates(content) if _identity(pod)[0] == name]
        pods = await self.claim(content, selector, candidates)
        members = _Members(content, pods, await self._revisions.of(content, pods), self.context.now())
        if not is_deleting(content):
            await self._act(members)
        await self.writes.set_status(self.owner_kind, content, _status(members))
        await self._truncate(members)
        return _requeue_after_s(members)

    async def _act(self, members: _Members) -> None:
        """Create pods, then remove surplus pods, then update; one at a time if the set is ordered."""
        if not await self._fill_up(members):
            return
        if not await self._shrink(members):
            return
        if members.spec["updateStrategy"]["type"] == "RollingUpdate":
            for pod in _to_update(members):
                await self.delete_pod(pod)

    async def _fill_up(self, members: _Members) -> bool:
        """Create missing pods, and return whether all exist and none has to be waited for."""
        for ordinal, pod in members.wanted:
            if pod is None:
                await self._create(members, ordinal)
            elif pod.finished:
                if not pod.deleting:
                    await self.delete_pod(pod)
            elif members.is_available(pod) and not pod.deleting:
                continue
            if members.in_order:
                return False
        return True

    async def _shrink(self, members: _Members) -> bool:
        for pod in members.surplus:
            waits_for_others = not members.is_available(pod) and pod is not members.first_unhealthy
            if not pod.deleting and not (members.in_order and waits_for_others):
                await self.delete_pod(pod)
            if members.in_order:
                return False
        return True

    async def _create(self, members: _Members, ordinal: int) -> None:
        content = members.content
        name, namespace = content["metadata"]["name"], content["metadata"]["namespace"]
        revision = _revision_for(members, ordinal)
        pod = pod_from_template(template_of(revision), self.owner_kind, content)
        metadata, spec = pod["metadata"], pod["spec"]
        metadata["name"] = spec["hostname"] = f"{name}-{ordinal}"
        metadata["labels"] = {
            **metadata.get("labels", {}),
            POD_NAME: metadata["name"],
            POD_INDEX: str(ordinal),
            REVISION_HASH: revision["metadata"]["name"],
        }
        if members.spec.get("serviceName"):
            spec["subdomain"] = members.spec["serviceName"]
        await self._claim_storage(members, ordinal, spec)
        await self.writes.create(self.context.pod_kind, namespace, pod)

    async def _claim_storage(self, members: _Members, ordinal: int, spec: Object) -> None:
        """Create the claims of a pod; existing claims are reused."""
        name, namespace = members.content["metadata"]["name"], members.content["metadata"]["namespace"]
        templates = members.spec.get("volumeClaimTemplates") or ()
        volumes = []
        for template in templates:
            own = template["metadata"]["name"]
            claim_name = f"{own}-{name}-{ordinal}"
            volumes.append({"name": own, "persistentVolumeClaim": {"claimName": claim_name}})
            if self.context.store.find(self._claims, namespace, claim_name) is None:
                labels = {
                    **(template["metadata"].get("labels") or {}),
                    **(members.spec["selector"].get("matchLabels") or {}),
                }
                claim = {"metadata": {"name": claim_name, "labels": labels}, "spec": dict(template["spec"])}
                if template["metadata"].get("annotations"):
                    claim["metadata"]["annotations"] = template["metadata"]["annotations"]
                await self.writes.create(self._claims, namespace, claim)
        taken = {volume["name"] for volume in volumes}
        others = [volume for volume in spec.get("volumes") or () if volume["name"] not in taken]
        if volumes or others:
            spec["volumes"] = volumes + others

    async def _truncate(self, members: _Members) -> None:
        in_use = {
            members.current["metadata"]["name"],
            *(p.labels.get(REVISION_HASH, "") for p in members.pods),
        }
        await self._revisions.truncate(members.history, in_use, members.spec.get("revisionHistoryLimit", 10))


def _revision_for(members: _Members, ordinal: int) -> Object:
    """Return the revision of an ordinal; ordinals below the partition keep the previous one."""
    partition = _rolling(members).get("partition", 0)
    keeps = members.spec["updateStrategy"]["type"] == "RollingUpdate" and (
        ordinal < members.ordinals.start + partition
    )
    return members.current if keeps else members.history.latest


def _rolling(members: _Members) -> Object:
    return members.spec["updateStrategy"].get("rollingUpdate") or {}


def _to_update(members: _Members) -> list[IndexedPod]:
    """Return the pods to update, the highest ordinals first, within the allowed unavailability."""
    rolling = _rolling(members)
    most = max(1, scaled(rolling.get("maxUnavailable", 1), members.spec["replicas"], round_up=False))
    pods = [pod for _, pod in members.wanted]
    missing = sum(1 for pod in pods if members.is_unavailable(pod))
    old = [
        pod
        for ordinal, pod in reversed(members.wanted)
        if pod is not None
        and ordinal >= members.ordinals.start + rolling.get("partition", 0)
        and not members.is_updated(pod)
        and not pod.deleting
    ]
    if members.in_order:
        return old[: max(0, most - missing)]
    broken = [pod for pod in old if members.is_unavailable(pod)]  # updating these disrupts nothing
    healthy = [pod for pod in old if not members.is_unavailable(pod)]
    return broken + healthy[: max(0, most - missing)]


def _status(members: _Members) -> Object:
    current, latest = (each["metadata"]["name"] for each in (members.current, members.history.latest))
    staying = [pod.labels.get(REVISION_HASH) for pod in members.pods if not pod.deleting]
    ready = [pod for pod in members.pods if pod.ready and pod.phase == "Running"]
    counts = {
        "readyReplicas": len(ready),
        "currentReplicas": staying.count(current),
        "updatedReplicas": staying.count(latest),
    }
    wanted = members.spec["replicas"]
    if counts["updatedReplicas"] == counts["readyReplicas"] == len(members.pods) == wanted:
        current, counts["currentReplicas"] = latest, counts["updatedReplicas"]
    status: Object = {
        "observedGeneration": members.content["metadata"].get("generation", 0),
        "replicas": len(members.pods),
        "availableReplicas": sum(1 for pod in ready if members.is_available(pod)),
        "currentRevision": current,
        "updateRevision": latest,
        "collisionCount": members.content.get("status", {}).get("collisionCount", 0),
        **{name: count for name, count in counts.items() if count},
    }
    if conditions := members.content.get("status", {}).get("conditions"):
        status["conditions"] = conditions
    return status


def _requeue_after_s(members: _Members) -> float | None:
    min_ready_s = members.spec.get("minReadySeconds", 0)
    waits = [wait for pod in members.pods if (wait := pod.available_in(min_ready_s, members.now))]
    return min(waits, default=None)
