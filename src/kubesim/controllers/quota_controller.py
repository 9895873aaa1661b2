"""ResourceQuotas for pods: their number and their total requests and limits.

A pod is checked as the last step of admission, and the quota's status is updated in the same step, so that no
two pods get the same quota. Scopes and other kinds are not supported.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.object_store import StoredObject, key_of
from kubesim.apiserver.status_errors import forbidden
from kubesim.apiserver.write_options import WriteOptions
from kubesim.common_fields import parse_timestamp
from kubesim.controllers.controller_base import ChangeHandler, ControllerBase, ControllerContext, split_key
from kubesim.controllers.pod_index import IndexedPod
from kubevalues.quantity import Quantity, quantity_of

__all__ = ["QuotaController"]

Amounts = dict[str, Quantity]
_ONE, _NONE = quantity_of(1), Quantity(0)
_MUST_BE_SPECIFIED = {
    "cpu": ("requests", "cpu"),
    "memory": ("requests", "memory"),
    "requests.cpu": ("requests", "cpu"),
    "requests.memory": ("requests", "memory"),
    "limits.cpu": ("limits", "cpu"),
    "limits.memory": ("limits", "memory"),
}


class QuotaController(ControllerBase):
    name = "resourcequota-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._quotas = self.kind("v1", "ResourceQuota")
        self._asked: dict[str, tuple[int, Amounts]] = {}
        """The quota usage of each pod by uid, with the version of the pod."""
        context.cluster.admission.last_checks.append(self._admit)

    def watches(self) -> Mapping[ResourceKind, ChangeHandler]:
        return {self._quotas: self.enqueue}

    def pod_changed(self, before: IndexedPod | None, after: IndexedPod | None) -> None:
        pod = after or before
        assert pod is not None
        if after is None:
            self._asked.pop(pod.uid, None)
        elif before is not None and (before.finished, before.deleting) == (after.finished, after.deleting):
            return  # nothing that counts
        for quota in self._of(pod.namespace):
            self.queue.add(key_of(quota.namespace, quota.name))

    def _of(self, namespace: str) -> list[StoredObject]:
        return list(self.context.store.collection(self._quotas).ordered(namespace))

    # -- what is used

    async def reconcile(self, key: str) -> float | None:
        quota = self.context.read(self._quotas, *split_key(key))
        if quota is None:
            return None
        hard = quota["spec"].get("hard") or {}
        used = self._used(quota["metadata"]["namespace"], hard) if not _has_scopes(quota) else {}
        status = {"hard": hard, "used": {name: str(amount) for name, amount in used.items()}}
        await self.writes.set_status(self._quotas, quota, status)
        return None

    def _used(self, namespace: str, hard: Iterable[str]) -> Amounts:
        total = dict.fromkeys(hard, _NONE)
        now = self.context.now()
        for record in self.context.store.collection(self.context.pod_kind).ordered(namespace):
            for name, amount in self._counted(record, now).items():
                if name in total:
                    total[name] += amount
        return total

    def _counted(self, record: StoredObject, now: datetime) -> Amounts:
        known = self._asked.get(record.uid)
        if known is None or (known[0] != record.version and record.deleting):
            known = self._asked[record.uid] = (record.version, _usage(record.object, now))
        if record.fields["status.phase"] in {"Succeeded", "Failed"}:
            return {"count/pods": _ONE}
        return known[1]

    # -- what is refused

    def _admit(
        self, kind: ResourceKind, new: Object, old: Object | None, subresource: str, options: WriteOptions
    ) -> None:
        if kind != self.context.pod_kind or old is not None or subresource:
            return
        quotas = [record.object for record in self._of(new["metadata"]["namespace"])]
        quotas = [quota for quota in quotas if not _has_scopes(quota) and quota.get("status")]
        if not quotas:
            return
        asked = _usage(new, self.context.now())
        name = new["metadata"]["name"]
        for quota in quotas:
            if why := _why_not(quota, new, asked):
                raise forbidden(kind, name, why)
        for quota in () if options.dry_run else quotas:
            used = quota["status"]["used"]
            more = {item: str(quantity_of(used[item]) + asked[item]) for item in used if item in asked}
            quota["status"]["used"] = {**used, **more}
            self.context.store.put(self._quotas, quota)


def _has_scopes(quota: Object) -> bool:
    return bool(quota["spec"].get("scopes") or quota["spec"].get("scopeSelector"))


def _why_not(quota: Object, pod: Object, asked: Amounts) -> str:
    name, status = quota["metadata"]["name"], quota["status"]
    hard, used = status.get("hard") or {}, status.get("used") or {}
    if missing := _containers_without_values(pod, hard):
        return f"failed quota: {name}: must specify {missing}"
    exceeded = sorted(
        item
        for item in hard
        if item in asked and quantity_of(used.get(item, "0")) + asked[item] > quantity_of(hard[item])
    )
    if not exceeded:
        return ""

    def listed(amounts: Mapping[str, object]) -> str:
        return ",".join(f"{item}={amounts[item]}" for item in exceeded)

    return (
        f"exceeded quota: {name}, requested: {listed(asked)}, used: {listed(used)}, limited: {listed(hard)}"
    )


def _containers_without_values(pod: Object, hard: Mapping[str, object]) -> str:
    """Return, by resource, the containers without a value for a limited resource."""
    if pod["spec"].get("resources"):
        return ""
    containers = [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())]
    silent = {}
    for item in sorted(hard):
        if item in _MUST_BE_SPECIFIED:
            side, resource = _MUST_BE_SPECIFIED[item]
            names = [c["name"] for c in containers if resource not in _resources(c, side)]
            if names:
                silent[item] = ",".join(sorted(names))
    return "; ".join(f"{item} for: {names}" for item, names in silent.items())


# -- what a pod counts for


def _usage(pod: Object, now: datetime) -> Amounts:
    usage = {"count/pods": _ONE}
    if pod.get("status", {}).get("phase") in {"Succeeded", "Failed"} or _is_overdue(pod, now):
        return usage
    usage["pods"] = _ONE
    for side in ("requests", "limits"):
        for resource, amount in _total(pod["spec"], side).items():
            usage[f"{side}.{resource}"] = amount
            if side == "requests":
                usage[resource] = amount
    return usage


def _is_overdue(pod: Object, now: datetime) -> bool:
    """Return whether the pod should have ended already, so that it no longer counts."""
    ends, grace_s = (pod["metadata"].get(f"deletion{field}") for field in ("Timestamp", "GracePeriodSeconds"))
    return bool(ends) and grace_s is not None and (now - parse_timestamp(ends)).total_seconds() > grace_s


def _resources(container: Object, side: str) -> Mapping[str, object]:
    found: Mapping[str, object] = (container.get("resources") or {}).get(side) or {}
    return found


def _total(spec: Object, side: str) -> Amounts:
    """Return the sum of containers and sidecars, or the largest init container if that is more."""
    total: Amounts = {}
    largest: Amounts = {}
    for container in (*spec["containers"], *_sidecars(spec)):
        for name, value in _resources(container, side).items():
            total[name] = total.get(name, _NONE) + quantity_of(value)
    for container in spec.get("initContainers") or ():
        if container not in _sidecars(spec):
            for name, value in _resources(container, side).items():
                largest[name] = max(largest.get(name, _NONE), quantity_of(value))
    for name, value in (spec.get("overhead") or {}).items():
        total[name] = total.get(name, _NONE) + quantity_of(value)
    return {name: max(total.get(name, _NONE), largest.get(name, _NONE)) for name in {**total, **largest}}


def _sidecars(spec: Object) -> list[Object]:
    return [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
