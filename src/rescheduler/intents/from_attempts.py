"""The intents of failed attempts: who takes the place of a failing pod stays away from where that failed.

They last as long as the record on the workload does. Where replicas have names, each avoids its own nodes;
elsewhere nobody can tell whose place a new pod takes, so it avoids the nodes of all of them.
"""

from collections.abc import Collection, Iterable, Iterator

from rescheduler.intents.intent import Intent
from rescheduler.model.migrations import OwnerReference
from rescheduler.model.selectors.names import subdomain_fault
from rescheduler.recovery.ledger import Ledger

__all__ = ["intents_of_ledger"]


def intents_of_ledger(
    ledger: Ledger, namespace: str, controller: OwnerReference, open_nodes: Collection[str]
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


def _scopes(ledger: Ledger, controller: OwnerReference) -> Iterator[tuple[str | None, set[str]]]:
    """Which pods are meant, and where their like have failed."""
    if controller.kind == "StatefulSet":
        yield from ((name, set(line.nodes)) for name, line in ledger.lines.items())
    else:
        yield None, {node for line in ledger.lines.values() for node in line.nodes}


def _avoidable(nodes: Iterable[str], open_nodes: Collection[str]) -> tuple[str, ...]:
    # What can't be a node's name would make the pod that carries it invalid, and its creation fail.
    named = {node for node in nodes if subdomain_fault(node) is None}
    if open_nodes and named.issuperset(open_nodes):
        return ()
    return tuple(sorted(named))
