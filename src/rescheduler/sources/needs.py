"""What the pods of a cluster depend on: so that only assumptions are told that make a difference."""

from collections.abc import Iterable
from dataclasses import dataclass

from rescheduler.model.constraints import Affinity
from rescheduler.model.pods import PodRecord
from rescheduler.model.volumes import CLAIM

__all__ = ["Needs", "needs_of"]


@dataclass(frozen=True, slots=True)
class Needs:
    owner_kinds: frozenset[str] = frozenset()
    """Kinds of the controllers that pods name."""
    has_claims: bool = False
    selects_namespaces: bool = False
    """Whether a pod wants others near or far by labels of their namespaces."""


def needs_of(pods: Iterable[PodRecord]) -> Needs:
    owners, volumes, affinities = set(), set(), {}
    for pod in pods:
        owners.update([each.kind for each in pod.owners if each.controller])
        volumes.update([volume.kind for volume in pod.volumes])
        affinities[id(pod.affinity)] = pod.affinity  # shared by all pods of a template
    return Needs(
        owner_kinds=frozenset(owners),
        has_claims=CLAIM in volumes,
        selects_namespaces=any(map(_selects_namespaces, affinities.values())),
    )


def _selects_namespaces(affinity: Affinity) -> bool:
    terms = (*affinity.pod_affinity.required, *affinity.pod_anti_affinity.required)
    return any(term.namespace_selector is not None for term in terms)
