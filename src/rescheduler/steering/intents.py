"""What the next pod of a workload should know: where it should rather go, and where it must not.

Derived from two records, and never stored: migrations that are under way (`from_migrations`), and failed
attempts on workloads (`from_attempts`).

All intents of a moment, by the pods that they are for.

A replacement of a pod without a name of its own can't be told from any other new pod of its workload, so an
intent for one is heeded by each: a workload that is scaled up while one of its pods is being moved has all
its new pods steered. Of several intents for the same pod, all exclusions count, and the one preference is
that of the migration which was used least, so that several replacements go to several targets.

The intents of running migrations: a pod that is evicted to be moved should not come back where it was.

An intent begins when the migration is on record with its target and its owner, before anything is touched,
so that it is known everywhere by the time the pod is evicted. It ends when the migration does, is rolled
back, or finds that the replacement has no place as it is steered (`Steered` is False). Nobody has to remove
it: it is only ever read off the migration.

The intents of failed attempts: who takes the place of a failing pod stays away from where that failed.

They last as long as the record on the workload does. Where replicas have names, each avoids its own nodes;
elsewhere nobody can tell whose place a new pod takes, so it avoids the nodes of all of them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from kubevalues.label_selectors import subdomain_error
from rescheduler.api.podmigration import ConditionType, ControllerReference, Handover, Migration
from rescheduler.migrations.transition_table import MigrationStep
from rescheduler.recovery.attempt_ledger import AttemptLedger

__all__ = ["NOTHING_USED", "Intent", "IntentIndex", "intent_of_migration", "intents_of_ledger"]


@dataclass(frozen=True, slots=True)
class Intent:
    namespace: str
    workload: ControllerReference
    """The controller that makes the pod."""
    pod_name: str | None
    """Whose successor is meant; None, any pod of the workload, where successors have other names."""
    prefer: str
    """A node; empty if any will do."""
    avoid: tuple[str, ...]
    """Nodes that it must not come to."""
    cause: str
    """The migration that it follows from, by its name; empty if it follows from failed attempts."""
    is_answered: bool = False
    """Whether its pod is there already: others of the same workload come first."""
    tried: tuple[str, ...] = ()
    """Nodes where it kept failing: it stays away from them as long as there is any other place."""

    @property
    def excluded(self) -> tuple[str, ...]:
        return tuple(sorted({*self.avoid, *self.tried}))


NOTHING_USED: Final[Mapping[str, int]] = MappingProxyType({})


class IntentIndex:
    def __init__(self, intents: Iterable[Intent] = ()) -> None:
        self._by_workload: dict[str, list[Intent]] = {}
        for intent in intents:
            self._by_workload.setdefault(intent.workload.uid, []).append(intent)

    def __len__(self) -> int:
        return sum(map(len, self._by_workload.values()))

    def intent_for(
        self,
        namespace: str,
        workload_uid: str,
        pod_name: str,
        *,
        used: Mapping[str, int] = NOTHING_USED,
        told_before: str = "",
    ) -> Intent | None:
        """`used` says how often each migration has been answered with already, by `namespace/name`;
        `told_before` is the migration that this very pod has been told of."""
        found = [
            intent
            for intent in self._by_workload.get(workload_uid, ())
            if intent.namespace == namespace and intent.pod_name in {None, pod_name}
        ]
        if not found:
            return None

        def rank(intent: Intent) -> tuple[bool, bool, int, str]:
            times = used.get(f"{namespace}/{intent.cause}", 0)
            return (intent.cause != told_before, intent.is_answered, times, intent.cause)

        # Only a migration knows where to; failed attempts add where not.
        chosen = min([intent for intent in found if intent.cause] or found, key=rank)
        avoid = {node for intent in found for node in intent.avoid}
        tried = {node for intent in found for node in intent.tried} - avoid
        # To go to a node that others of the same workload are moved away from helps nobody.
        prefer = "" if chosen.prefer in avoid | tried else chosen.prefer
        return replace(chosen, prefer=prefer, avoid=tuple(sorted(avoid)), tried=tuple(sorted(tried)))


_STEERED_STEPS: Final = frozenset(
    {MigrationStep.MARKING, MigrationStep.PROTECTING, MigrationStep.EVICTING, MigrationStep.REPLACING}
)
"""Not while it is checked again: what is on record then belongs to the attempt before."""


def intent_of_migration(migration: Migration) -> Intent | None:
    status, owner = migration.status, migration.status.owner
    if status.handover is not Handover.EVICT or owner is None or status.step not in _STEERED_STEPS:
        return None
    if _is_withdrawn(migration) or not _has_valid_node_names(migration):
        return None
    return Intent(
        namespace=migration.namespace,
        workload=owner,
        pod_name=migration.spec.pod.name if _keeps_pod_names(owner) else None,
        prefer=migration.target_node,
        avoid=(migration.spec.source_node,),
        cause=migration.name,
        is_answered=status.target_pod is not None,
    )


def _keeps_pod_names(owner: ControllerReference) -> bool:
    """Of whatever group: those of others that are called so replace pods by name, too."""
    return owner.kind == "StatefulSet"


def _has_valid_node_names(migration: Migration) -> bool:
    """What can't be a node's name would make the pod that carries it invalid, and its creation fail."""
    named = (migration.spec.source_node, migration.target_node)
    return all(subdomain_error(node) is None for node in named if node)


def _is_withdrawn(migration: Migration) -> bool:
    steered = migration.status.condition(ConditionType.STEERED)
    return steered is not None and steered.status == "False"


def intents_of_ledger(
    ledger: AttemptLedger, namespace: str, controller: ControllerReference, open_nodes: Collection[str]
) -> Iterator[Intent]:
    """For new pods of that controller. `open_nodes` are those that could take pods at all: if every one of
    them was tried, none is avoided; empty if nobody knows."""
    for pod_name, nodes in _scopes(ledger, controller):
        tried = _avoidable(nodes, open_nodes)
        if tried:
            yield Intent(
                namespace=namespace,
                workload=controller,
                pod_name=pod_name,
                prefer="",
                avoid=(),
                cause="",
                tried=tried,
            )


def _scopes(ledger: AttemptLedger, controller: ControllerReference) -> Iterator[tuple[str | None, set[str]]]:
    """Which pods are meant, and where their like have failed."""
    if controller.kind == "StatefulSet":
        yield from ((name, set(lineage.nodes)) for name, lineage in ledger.lineages.items())
    else:
        yield None, {node for lineage in ledger.lineages.values() for node in lineage.nodes}


def _avoidable(nodes: Iterable[str], open_nodes: Collection[str]) -> tuple[str, ...]:
    # What can't be a node's name would make the pod that carries it invalid, and its creation fail.
    named = {node for node in nodes if subdomain_error(node) is None}
    if open_nodes and named.issuperset(open_nodes):
        return ()
    return tuple(sorted(named))
