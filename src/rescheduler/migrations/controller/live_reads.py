"""Read live what an irreversible effect depends on, because a cache may be behind."""

import asyncio
from collections.abc import Mapping

from rescheduler.api.podmigration import Handover, Migration
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.kube.client import Client
from rescheduler.migrations.effects import DeleteCopy, UnlabelSource
from rescheduler.migrations.labels_and_names import copy_names
from rescheduler.migrations.observation import Decision, Observation, Perform, Transition
from rescheduler.migrations.transition_table import MigrationStep, Trigger

__all__ = ["LiveReads", "ends_rollback_without_copy", "is_irreversible"]


def is_irreversible(observation: Observation, decision: Decision) -> bool:
    """Return whether the decision needs a live read: the eviction, every step of its cancellation, and the
    deletion of a ready copy."""
    is_evicting = observation.migration.status.step == MigrationStep.EVICTING
    if isinstance(decision, Perform):
        if isinstance(decision.effect, DeleteCopy):
            return observation.target is not None and observation.target.is_ready
        return decision.effect.irreversible or (is_evicting and isinstance(decision.effect, UnlabelSource))
    return is_evicting and isinstance(decision, Transition) and decision.trigger is not Trigger.SOURCE_LEFT


def ends_rollback_without_copy(observation: Observation, decision: Decision) -> bool:
    """Return whether a rollback would end because no copy is known."""
    return (
        isinstance(decision, Transition)
        and observation.migration.status.step == MigrationStep.ROLLING_BACK
        and observation.migration.status.handover in {Handover.ADOPT, Handover.COPY}
        and observation.target is None
    )


class LiveReads:
    def __init__(self, client: Client, watched: WatchedObjects) -> None:
        self._client = client
        self._watched = watched

    async def read(self, observation: Observation) -> Mapping[str, NodeRecord]:
        """Read both pods, and return the nodes of the observation with the target node as it is now.

        A pod on a node that is gone still reports that it is ready. A rollback reads the source node, too.
        """
        migration = observation.migration
        # An eviction of an outdated version would be refused, but its budget counts it for two minutes.
        reads = [self._watched.read_pod(migration.pod_key, migration.spec.pod.uid)]
        # Use the copy on record if the cache does not have it: the cache may be far behind.
        copy = migration.status.target_pod if observation.target is None else observation.target_reference
        if copy is not None:
            reads.append(self._watched.read_pod(f"{migration.namespace}/{copy.name}", copy.uid))
        names = {migration.target_node if observation.target is None else observation.target.node}
        if migration.status.step == MigrationStep.ROLLING_BACK:
            names.add(migration.spec.source_node)
        names.discard("")
        nodes, _ = await asyncio.gather(asyncio.gather(*map(self._node, names)), asyncio.gather(*reads))
        others = {each: known for each, known in observation.nodes.items() if each not in names}
        return others | {node.name: node for node in nodes if node is not None}

    async def read_copy(self, migration: Migration) -> None:
        """Read the copy of the last attempt by its name. Another process may have created it and ended before
        it was recorded, and a cache that is behind does not know it."""
        for name in copy_names(migration)[:1]:
            await self._watched.read_pod(f"{migration.namespace}/{name}", "")

    async def _node(self, name: str) -> NodeRecord | None:
        return await self._client.get_or_none(NODES, name)
