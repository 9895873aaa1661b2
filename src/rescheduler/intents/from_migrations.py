"""The intents of running migrations: a pod that is evicted to be moved should not come back where it was.

An intent begins when the migration is on record with its target and its owner, before anything is touched,
so that it is known everywhere by the time the pod is evicted. It ends when the migration does, is rolled
back, or finds that the replacement has no place as it is steered (`Steered` is False). Nobody has to remove
it: it is only ever read off the migration.
"""

from typing import Final

from rescheduler.intents.intent import Intent
from rescheduler.migrations.steps import Step
from rescheduler.model.migrations import ConditionType, Migration, OwnerReference
from rescheduler.model.plan import Handover
from rescheduler.model.selectors.names import subdomain_fault

__all__ = ["intent_of"]

_STEERED_AT: Final = frozenset({Step.MARKING, Step.PROTECTING, Step.EVICTING, Step.REPLACING})
"""Not while it is checked again: what is on record then belongs to the attempt before."""


def intent_of(migration: Migration) -> Intent | None:
    status, owner = migration.status, migration.status.owner
    if status.handover is not Handover.EVICT or owner is None or status.step not in _STEERED_AT:
        return None
    if _is_withdrawn(migration) or not _names_nodes(migration):
        return None
    return Intent(
        namespace=migration.namespace,
        workload=owner,
        pod_name=migration.spec.pod.name if _keeps_names(owner) else None,
        prefer=migration.target_node,
        avoid=(migration.spec.source_node,),
        cause=migration.name,
        is_answered=status.target_pod is not None,
    )


def _keeps_names(owner: OwnerReference) -> bool:
    """Of whatever group: those of others that are called so replace pods by name, too."""
    return owner.kind == "StatefulSet"


def _names_nodes(migration: Migration) -> bool:
    """What can't be a node's name would make the pod that carries it invalid, and its creation fail."""
    named = (migration.spec.source_node, migration.target_node)
    return all(subdomain_fault(node) is None for node in named if node)


def _is_withdrawn(migration: Migration) -> bool:
    steered = migration.status.condition(ConditionType.STEERED)
    return steered is not None and steered.status == "False"
