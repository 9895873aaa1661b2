"""The caches from which the webhook decides on evictions: pods, workloads, budgets, and the daemon's state.

Informers keep them current, so that an answer takes no request. Workloads are kept as small records: there
may be many thousands.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from kubevalues import Selector
from rescheduler.api.daemon_status import STATE_CONFIG_MAP, UnreadableState, decode_pause, decode_status
from rescheduler.api.podmigration import Migration, UnreadableMigration, decode_migration
from rescheduler.cluster.budget_record import BudgetRecord, decode_budget
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.node_record import in_maintenance, leaving_because
from rescheduler.cluster.object_meta import OwnerReference, UnreadableObject
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.workload_record import WorkloadRecord, decode_workload
from rescheduler.config.policy import Policy
from rescheduler.kube import errors
from rescheduler.kube.api_resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    REPLICA_SETS,
    STATEFUL_SETS,
    ApiResource,
    Object,
    ObjectIdentity,
)
from rescheduler.kube.client import Client
from rescheduler.kube.codecs.codec import JsonCodec, metadata_codec
from rescheduler.kube.informer import Informer, ListOptions
from rescheduler.kube.leader_election import LeaseObservation, LeaseRecord, lease_record_of
from rescheduler.steering.webhook.eviction_decision import EvictionFacts, goes_by_turns

__all__ = ["DaemonPresence", "EvictionCaches"]

_LEASE_MARGIN_S: Final = 5.0
_MAX_COMPARISONS: Final = 5_000
"""Values and labels that a review compares at most: this takes about a millisecond."""
_TURN_KINDS: Final = frozenset({"ReplicaSet", "StatefulSet"})
_NO_ANNOTATIONS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class _CachedWorkload:
    record: WorkloadRecord
    resource_version: str


def _workload_resource(resource: ApiResource[Object]) -> "ApiResource[_CachedWorkload]":
    def read(raw: bytes | msgspec.Raw) -> _CachedWorkload:
        item = msgspec.json.decode(raw, type=Object)
        metadata = item["metadata"]
        try:
            record = decode_workload(item, resource.kind)
        except UnreadableObject:
            # No decision uses it: its pods count as pods of an unknown owner.
            key = f"{metadata['namespace']}/{metadata['name']}"
            record = WorkloadRecord(
                kind="", api_version="", key=key, namespace=metadata["namespace"], uid=metadata["uid"]
            )
        return _CachedWorkload(record, metadata.get("resourceVersion", ""))

    codec = JsonCodec(resource.label, read, lambda each: each.resource_version)
    return ApiResource(
        resource.group, resource.version, resource.plural, resource.kind, True, codec,
        lambda each: ObjectIdentity(each.record.key, each.record.uid, each.resource_version),
    )  # fmt: skip


class DaemonPresence:
    """Knows from Lease and ConfigMap whether a leader is active, and whether it starts moves."""

    def __init__(self, client: Client, namespace: str, lease: str, monotonic_s: Callable[[], float]) -> None:
        self._key = f"{namespace}/{STATE_CONFIG_MAP}"
        self._monotonic_s = monotonic_s
        self._lease = LeaseObservation(LeaseRecord(), 0.0)
        self.informers: tuple[Informer[Object], ...] = (
            Informer(client, LEASES, ListOptions(namespace=namespace, fields=f"metadata.name={lease}")),
            Informer(
                client,
                CONFIG_MAPS,
                ListOptions(namespace=namespace, fields=f"metadata.name={STATE_CONFIG_MAP}"),
            ),
        )
        self._state = self.informers[1]
        self.informers[0].subscribe(self._lease_changed)

    def _lease_changed(self, _old: Object | None, new: Object | None) -> None:
        record = LeaseRecord() if new is None else lease_record_of(new.get("spec") or {})
        self._lease = self._lease.then(record, self._monotonic_s())

    def obstacle(self, namespace: str) -> str:
        """Return why no move of a pod in that namespace would start now; empty if one would."""
        record = self._lease.record
        # By our own clock: that of the leader may differ.
        if (
            not record.holder
            or self._monotonic_s() - self._lease.changed_s > record.lasts_s + _LEASE_MARGIN_S
        ):
            return "no daemon leads"
        data = (self._state.get(self._key) or {}).get("data") or {}
        try:
            pause, status = decode_pause(data), decode_status(data)
        except UnreadableState as error:
            return f"ConfigMap {self._key}: {error}"
        if pause.paused:
            return "rescheduler is paused"
        for halt in status.halts if status is not None else ():
            if halt.reason.stops_safe_evictions and halt.namespace in {"", namespace}:
                return f"moves are halted ({halt.reason})"
        return ""


@dataclass(frozen=True, slots=True)
class _IndexedBudget:
    budget: BudgetRecord
    pods: Selector
    labels: tuple[tuple[str, str], ...]
    """The labels that its pods must have."""
    comparisons: int


@dataclass(slots=True)
class _NamespaceBudgets:
    by_label: dict[tuple[str, str], dict[str, _IndexedBudget]] = field(default_factory=dict)
    others: dict[str, _IndexedBudget] = field(default_factory=dict)

    def put(self, key: str, budget: _IndexedBudget) -> None:
        if not budget.labels:
            self.others[key] = budget
            return
        # The label that the fewest others require: often all budgets of a namespace have one in common.
        label = min(budget.labels, key=lambda each: len(self.by_label.get(each, ())))
        self.by_label.setdefault(label, {})[key] = budget

    def remove(self, key: str, budget: _IndexedBudget) -> None:
        self.others.pop(key, None)
        for label in budget.labels:
            group = self.by_label.get(label, {})
            if group.pop(key, None) is not None and not group:
                del self.by_label[label]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[_IndexedBudget]:
        yield from self.others.values()
        for label in labels.items():
            yield from self.by_label.get(label, {}).values()


class _BudgetIndex:
    """Finds the budgets that cover a pod, in a time that no tenant can raise.

    A namespace may have thousands of budgets, with selectors of any size, and its owner may have its pods
    evicted all the time. If every review examined all of them, the webhook would not answer others in time.
    So budgets are indexed by one label that they require, and a review that would still have to compare too
    much gets no answer.
    """

    def __init__(self, budgets: Informer[Object]) -> None:
        self._namespaces: dict[str, _NamespaceBudgets] = {}
        self._indexed: dict[str, _IndexedBudget] = {}
        budgets.subscribe(self._budget_changed)

    def of_pod(self, pod: PodRecord) -> tuple[BudgetRecord, ...] | None:
        """Return the budgets that cover the pod; None if finding them would take too long."""
        namespace = self._namespaces.get(pod.namespace)
        if namespace is None:
            return ()
        found: list[BudgetRecord] = []
        comparisons = 0
        for each in namespace.candidates(pod.labels):
            comparisons += each.comparisons
            if comparisons > _MAX_COMPARISONS:
                return None
            if each.pods.matches(pod.labels):
                found.append(each.budget)
        return tuple(found)

    def _budget_changed(self, old: Object | None, new: Object | None) -> None:
        for item, is_present in ((old, False), (new, True)):
            if item is None:
                continue
            key = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
            self._remove(key)
            if is_present and (indexed := _indexed(item)) is not None:
                self._indexed[key] = indexed
                namespace = self._namespaces.setdefault(indexed.budget.namespace, _NamespaceBudgets())
                namespace.put(key, indexed)

    def _remove(self, key: str) -> None:
        known = self._indexed.pop(key, None)
        if known is None:
            return
        namespace = self._namespaces[known.budget.namespace]
        namespace.remove(key, known)
        if not namespace.by_label and not namespace.others:
            del self._namespaces[known.budget.namespace]


def _indexed(item: Object) -> _IndexedBudget | None:
    try:
        budget = decode_budget(item)
    except UnreadableObject:
        return None  # it is taken to select no pod; the daemon reports it
    pods = budget.pods()
    if pods.selects_nothing:
        return None
    required = budget.selector.match_labels if budget.selector is not None else ()
    comparisons = 1 + sum(1 + len(each.values) for each in pods.requirements)
    return _IndexedBudget(budget, pods, required, comparisons)


class EvictionCaches:
    def __init__(self, client: Client, migrations: Informer[Object], daemon: DaemonPresence) -> None:
        self.daemon = daemon
        self._migrations = migrations
        self._pods = Informer(client, PODS, indices={"controller": _controller_of})
        self._nodes = Informer(client, NODES)
        self._workloads = {
            each.kind: Informer(client, _workload_resource(each))
            for each in (REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS)
        }
        self._budgets = Informer(client, POD_DISRUPTION_BUDGETS)
        self._budget_index = _BudgetIndex(self._budgets)
        slim = metadata_codec("namespaces", _kept_metadata)
        self._namespaces = Informer(client, replace(NAMESPACES, codec=slim))
        self._of_pod: dict[str, dict[str, Migration]] = {}
        """Migrations by the uid of their pod, then by their own key."""
        migrations.subscribe(self._migration_changed)

    @property
    def _informers(self) -> tuple[Informer[Any], ...]:
        return (
            self._pods, self._nodes, *self._workloads.values(), self._budgets, self._namespaces,
            *self.daemon.informers,
        )  # fmt: skip

    @property
    def is_ready(self) -> bool:
        """Return whether every informer has synced and follows the server."""
        return self._migrations.is_fresh and all(each.is_fresh for each in self._informers)

    @property
    def problem(self) -> errors.KubeError | None:
        """Return why an informer can never sync, such as a missing permission; None if all may."""
        failures = (each.failure for each in self._informers if not each.is_synced)
        return next((each for each in failures if isinstance(each, errors.Permanent)), None)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for informer in self._informers:
                await stack.enter_async_context(informer.running())
            yield

    async def synced(self) -> None:
        await asyncio.gather(*(informer.synced() for informer in self._informers))

    def pod(self, key: str) -> PodRecord | None:
        return self._pods.get(key)

    def is_name_taken(self, key: str, pod: PodRecord) -> bool:
        """Return whether a PodMigration of that name exists that does not move this pod any more, or never
        did."""
        item = self._migrations.get(key)
        if item is None:
            return False
        migration = _decoded(item)
        is_of_pod = migration is not None and (migration.spec.pod.uid, migration.pod_key) == (
            pod.uid,
            pod.key,
        )
        return migration is None or not is_of_pod or migration.is_finished

    def facts(self, pod: PodRecord, policy: Policy, template: EvictionFacts) -> EvictionFacts:
        """Return the facts about the pod; `template` has those that do not depend on the cluster."""
        owner = self._workload(pod.namespace, pod.owner)
        top = owner
        if owner is not None and owner.kind == "ReplicaSet" and owner.owner is not None:
            top = self._workload(pod.namespace, owner.owner) or owner
        namespace = (self._namespaces.get(pod.namespace) or {}).get("metadata", {})
        budgets = self._budget_index.of_pod(pod)
        obstacle = template.unavailable or self.daemon.obstacle(pod.namespace)
        if budgets is None:
            obstacle = obstacle or "too many budgets may cover the pod"
        facts = replace(
            template,
            policy=policy,
            pod=pod,
            node=self._nodes.get(pod.node),
            owner=owner,
            top=top,
            namespace_annotations=namespace.get("annotations", _NO_ANNOTATIONS),
            namespace_labels=namespace.get("labels"),
            budgets=budgets or (),
            # Other tenants may have created PodMigrations in their namespaces that name its uid.
            migrations=tuple(m for m in self._of_pod.get(pod.uid, {}).values() if m.pod_key == pod.key),
            unavailable=obstacle,
        )
        return replace(facts, siblings_first=self._siblings_first(pod)) if goes_by_turns(facts) else facts

    def _siblings_first(self, pod: PodRecord) -> int:
        """Return how many ready pods of its controller leave their nodes before it: in a StatefulSet from the
        highest ordinal down, and elsewhere in the reverse order of their names."""
        leaving = [
            each
            for uid in _controller_of(pod)
            for each in self._pods.find("controller", uid)
            if each.uid != pod.uid and each.is_ready and not each.is_terminating and self._leaves(each.node)
        ]
        if not self._leaves(pod.node):
            return len(leaving)
        return sum(_ordinal(each) > _ordinal(pod) for each in leaving)

    def _leaves(self, node: str) -> bool:
        """Return whether the pods of that node are about to leave it."""
        found = self._nodes.get(node)
        return found is not None and (
            found.unschedulable or in_maintenance(found) or bool(leaving_because(found))
        )

    def _workload(self, namespace: str, owner: OwnerReference | None) -> WorkloadRecord | None:
        if owner is None or not owner.api_version.startswith("apps/") or owner.kind not in self._workloads:
            return None
        found = self._workloads[owner.kind].get(f"{namespace}/{owner.name}")
        is_it = found is not None and found.record.uid == owner.uid and found.record.kind == owner.kind
        return found.record if found is not None and is_it else None

    def _migration_changed(self, old: Object | None, new: Object | None) -> None:
        for item, is_present in ((old, False), (new, True)):
            migration = None if item is None else _decoded(item)
            if migration is None:
                continue
            uid = migration.spec.pod.uid
            of_pod = self._of_pod.setdefault(uid, {})
            of_pod.pop(migration.key, None)
            if is_present:
                of_pod[migration.key] = migration
            if not of_pod:
                del self._of_pod[uid]


def _controller_of(pod: PodRecord) -> list[str]:
    """Return the uid of the controller whose pods may have to leave one after the other."""
    return [pod.owner.uid] if pod.owner is not None and pod.owner.kind in _TURN_KINDS else []


def _ordinal(pod: PodRecord) -> tuple[int, str]:
    """Return a key that sorts pods of one controller: those of a StatefulSet by their number, because only it
    differs in their names."""
    return len(pod.name), pod.name


def _decoded(item: Object) -> Migration | None:
    try:
        return decode_migration(item)
    except UnreadableMigration:
        return None  # the intent cache reports it


def _kept_metadata(metadata: Object) -> Object:
    annotations = metadata.get("annotations") or {}
    kept = {name: value for name, value in annotations.items() if name.startswith("rescheduler.dev/")}
    return {name: metadata[name] for name in ("name", "uid", "resourceVersion")} | {
        "annotations": kept,
        "labels": metadata.get("labels") or {},
    }
