"""The whole cluster as it is known now, kept up to date: for executing, and for deciding.

informers ──▶ ClusterState ──freeze──▶ Snapshot, made anew only when something has changed

Without kinds that are not served, or that we may not read, the same is assumed as for a plan that is made
once; what executing can't do without is an error.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from rescheduler.controller.followed import POD_MIGRATIONS, Followed
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.informer import Handler, Informer
from rescheduler.kube.resources import Object, key_of
from rescheduler.model.storage_objects import STORAGE_READERS
from rescheduler.model.workloads import WORKLOAD_KINDS
from rescheduler.snapshot.snapshot import Snapshot
from rescheduler.snapshot.state import ClusterState
from rescheduler.sources.kinds import CLUSTER_KINDS, ClusterKind
from rescheduler.sources.needs import needs_of
from rescheduler.sources.together import together
from rescheduler.usage.one_check import Tenants
from rescheduler.usage.readings import UsageByName

__all__ = ["KnownCluster", "MissingDefinition", "must_be_defined"]

log = logging.getLogger(__name__)

_NOBODY: Final = "metadata.name=rescheduler-asks-whether-it-may-list"
"""A selector that no object matches: the answer is empty, or says why there is none."""


class MissingDefinition(Exception):  # noqa: N818 - says what is the case
    def __init__(self) -> None:
        super().__init__(
            "the cluster does not know PodMigration, in which moves are recorded. "
            "Install it: rescheduler manifests --crd | kubectl apply -f -, or repeat this with --install."
        )


async def must_be_defined(client: Client) -> None:
    """Raises `MissingDefinition` if the server does not know our kind, and `KubeError`."""
    try:
        await client.list(POD_MIGRATIONS, fields=_NOBODY)
    except errors.NotFound as error:
        raise MissingDefinition from error


class KnownCluster:
    def __init__(self, client: Client, followed: Followed, now: Callable[[], datetime]) -> None:
        self.followed = followed
        self.assumptions: tuple[str, ...] = ()
        """About kinds that could not be read."""
        self._client = client
        self._now = now
        self._state = ClusterState()
        self._snapshot: Snapshot | None = None
        self._notes: tuple[str, ...] = ()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follows the cluster while the body runs. Raises `MissingDefinition`, and `KubeError`."""
        own = {informer.resource.kind: informer for informer in self.followed.informers}
        kinds = [each for each in CLUSTER_KINDS if each.decides]
        refusals = await self._refusals(kinds, own)
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self.followed.running())
            followed = {**own, **{
                each.kind: Informer(self._client, each.resource)
                for each in kinds
                if each.kind not in own and each.kind not in refusals
            }}  # fmt: skip
            others = [informer for kind, informer in followed.items() if kind not in own]
            for informer in others:
                await stack.enter_async_context(informer.running())
            await asyncio.gather(*(informer.synced() for informer in others))
            for kind in kinds:
                if kind.kind in followed:
                    stack.callback(followed[kind.kind].subscribe(self._handler(kind)))
            needs = needs_of(self.followed.pods.informer)
            self.assumptions = tuple(
                f"{each.without}: {refusals[each.kind]}"
                for each in kinds
                if each.kind in refusals and each.without and each.matters(needs)
            )
            yield

    async def _refusals(self, kinds: list[ClusterKind], own: dict[str, Any]) -> dict[str, errors.KubeError]:
        """Which kinds can't be followed, and why; an informer would ask for them for ever."""

        async def refusal(kind: ClusterKind) -> errors.KubeError | None:
            if kind.kind == POD_MIGRATIONS.kind:
                await must_be_defined(self._client)
                return None
            try:
                await self._client.list(kind.resource, fields=_NOBODY)
            except (errors.NotFound, errors.Forbidden) as error:
                if kind.kind in own:
                    raise
                return error
            return None

        found = await together([refusal(each) for each in kinds])
        return {kind.kind: error for kind, error in zip(kinds, found, strict=True) if error is not None}

    # -- what is known

    @property
    def is_fresh(self) -> bool:
        return self.followed.is_fresh

    def snapshot(self) -> Snapshot:
        """As of now. The same as before, but for the time, if nothing has changed."""
        now_s = self._now().timestamp()
        if self._snapshot is None:
            assumptions = (*self.assumptions, *self._notes)
            self._snapshot = self._state.freeze(now_s, assumptions=assumptions)
        return replace(self._snapshot, taken_at_s=now_s)

    def measure(self, pods: UsageByName, notes: tuple[str, ...] = ()) -> None:
        """What pods use, from now on; `notes` say what had to be assumed for that."""
        self._state.apply_usage(pods)
        self._notes = notes
        self._snapshot = None

    def tenants(self) -> Tenants:
        """Whose usage is wanted."""
        running = [pod for pod in self.followed.pods.informer if pod.node and not pod.is_finished]
        return Tenants(
            node_of={pod.key: pod.node for pod in running},
            pod_uids={pod.key: pod.uid for pod in running},
            node_uids={node.name: node.uid for node in self.followed.nodes},
        )

    # -- single changes

    def _handler(self, kind: ClusterKind) -> Handler[Any]:
        apply, remove = kind.applier(self._state), _remover(kind.kind, self._state)

        def on_change(old: Any, new: Any) -> None:
            self._snapshot = None
            try:
                if new is not None:
                    apply(new)
                else:
                    remove(old)
            except ValueError as error:
                # Such as a migration that was made before its definition: others go on.
                log.warning("%s; it is left out", error)

        return on_change


def _remover(kind: str, state: ClusterState) -> Callable[[Any], None]:
    if kind == "Pod":
        return lambda pod: state.remove_pod(pod.key)
    if kind == "Node":
        return lambda node: state.remove_node(node.name)
    if kind in WORKLOAD_KINDS:
        return lambda item: state.remove_workload(kind, _key(item))
    if kind in STORAGE_READERS:
        return lambda item: _remove_storage(kind, state, item)
    by_key: dict[str, Callable[[str], None]] = {
        "Namespace": state.remove_namespace,
        "PodDisruptionBudget": state.remove_budget,
        "PodMigration": state.remove_migration,
    }
    remove = by_key[kind]
    return lambda item: remove(_key(item))


def _remove_storage(kind: str, state: ClusterState, item: Object) -> None:
    record = STORAGE_READERS[kind](item)
    state.remove_storage(type(record), record.key)


def _key(item: Object) -> str:
    metadata = item["metadata"]
    return key_of(metadata.get("namespace", ""), metadata["name"])
