"""Hold the scheduling constraints of a pod, in the structure of the Kubernetes API.

The API's JSON converts directly into these types. They are frozen and hashable, so that pods with equal
constraints compare equal. Nothing is validated here: an invalid selector is kept, and the rules reject the
pod.

This module also defines exclusions of nodes in the node affinity of a pod, and removes them again.

A replacement that must not return to a node gets, in every term of its required node affinity, one
requirement per node: `metadata.name NotIn [node]` (Kubernetes allows only one name in each). The annotation
`rescheduler.dev/avoids` has the same nodes as a JSON list. When the pod is considered for a later move,
these requirements are ignored: they are rescheduler's, not its owner's.

The preferred target is one more preferred term of the highest weight. It does not bind the scheduler, so it
can stay; it is ignored, too, when the pod is considered for a later move.
"""

from collections.abc import Mapping, Sequence

import msgspec

from kubevalues import Selector, selector_from_object
from rescheduler.api.well_known_names import AVOIDED_NODES_ANNOTATION, STEERED_BY_ANNOTATION

__all__ = [
    "Affinity",
    "HostPort",
    "LabelSelector",
    "LabelSelectorRequirement",
    "NodeAffinity",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "PodAffinity",
    "PodAffinityTerm",
    "PreferredSchedulingTerm",
    "SchedulingConstraints",
    "Toleration",
    "TopologySpreadConstraint",
    "WeightedPodAffinityTerm",
    "avoided_nodes",
    "encode_avoided_nodes",
    "exclusion_requirements",
    "preferred_node_term",
    "without_exclusions",
]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class LabelSelectorRequirement(msgspec.Struct, frozen=True, gc=False):
    """A requirement of a label selector; `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A label selector as written; `selector()` parses it."""

    match_labels: tuple[tuple[str, str], ...] = ()
    """Sorted by key."""
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()

    def selector(self) -> Selector:
        """Return the selector; raise `SelectorError` if Kubernetes would not accept it either."""
        expressions = [msgspec.structs.asdict(expression) for expression in self.match_expressions]
        return selector_from_object({"matchLabels": dict(self.match_labels), "matchExpressions": expressions})


class NodeSelectorRequirement(msgspec.Struct, frozen=True, gc=False):
    """A requirement of a node selector; `operator` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A term matches a node if all its requirements hold; a term without any matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A selector matches a node if one of its terms does."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(msgspec.Struct, frozen=True, gc=False):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(
    msgspec.Struct, frozen=True, gc=False, rename={"required": _REQUIRED, "preferred": _PREFERRED}
):
    required: NodeSelector | None = None
    preferred: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The selected pods, and the topology domain that counts as the same place.

    A missing `label_selector` matches no pod, an empty one every pod. If `namespace_selector` and
    `namespaces` are missing, the pod's own namespace counts; an empty `namespace_selector` means every
    namespace.
    """

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(
    msgspec.Struct, frozen=True, gc=False, rename={"required": _REQUIRED, "preferred": _PREFERRED}
):
    """Affinity terms for both directions: with these pods, or (anti-affinity) away from them."""

    required: tuple[PodAffinityTerm, ...] = ()
    preferred: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


class Toleration(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A toleration. No operator means Equal; no key with Exists means every taint; no effect means every
    effect."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A topology spread constraint. No policy means Honor for affinity and Ignore for taints."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class HostPort(msgspec.Struct, frozen=True, gc=False):
    """A port of the node itself; `ip` 0.0.0.0 collides with every address."""

    port: int
    protocol: str = "TCP"
    ip: str = "0.0.0.0"  # noqa: S104 - that is what an absent address means


class SchedulingConstraints(msgspec.Struct, frozen=True, gc=False):
    """The fields that the scheduler considers beside resources, volumes and affinity."""

    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    spread: tuple[TopologySpreadConstraint, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    needed_features: tuple[str, ...] = ()
    """The features that the pod needs, of those that nodes declare in `status.declaredFeatures`."""


_NAME_FIELD = "metadata.name"
_GREATEST_WEIGHT = 100


def avoided_nodes(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Return the nodes that the annotation names; none if it is malformed, because then it isn't ours."""
    written = annotations.get(AVOIDED_NODES_ANNOTATION)
    if written is None:
        return ()
    try:
        return msgspec.json.decode(written, type=tuple[str, ...])
    except msgspec.DecodeError:
        return ()


def encode_avoided_nodes(nodes: Sequence[str]) -> str:
    """Return the value of the annotation for these nodes."""
    return msgspec.json.encode(list(nodes)).decode()


def exclusion_requirements(nodes: Sequence[str]) -> tuple[NodeSelectorRequirement, ...]:
    """Return the requirements to add to the fields of each term of the required node affinity."""
    return tuple(NodeSelectorRequirement(_NAME_FIELD, "NotIn", (node,)) for node in nodes)


def preferred_node_term(node: str) -> PreferredSchedulingTerm:
    """Return the term to add to the preferred node affinity."""
    wanted = NodeSelectorRequirement(_NAME_FIELD, "In", (node,))
    return PreferredSchedulingTerm(_GREATEST_WEIGHT, NodeSelectorTerm(match_fields=(wanted,)))


def without_exclusions(affinity: Affinity, annotations: Mapping[str, str]) -> Affinity:
    """Return the affinity as its owner wrote it."""
    if STEERED_BY_ANNOTATION in annotations:
        affinity = _without_preferred_node(affinity)
    own = exclusion_requirements(avoided_nodes(annotations))
    required = affinity.node_affinity.required
    if not own or required is None:
        return affinity
    if required.node_selector_terms == (NodeSelectorTerm(match_fields=own),):
        return _with_terms(affinity, None)
    terms = tuple(_without(term, own) for term in required.node_selector_terms)
    return affinity if terms == required.node_selector_terms else _with_terms(affinity, terms)


def _without_preferred_node(affinity: Affinity) -> Affinity:
    """Return the affinity without the preferred node that rescheduler added, always the last term."""
    *others, last = affinity.node_affinity.preferred or (None,)
    if last is None or len(last.preference.match_fields) != 1:
        return affinity
    if last != preferred_node_term(*last.preference.match_fields[0].values[:1] or ("",)):
        return affinity
    node_affinity = msgspec.structs.replace(affinity.node_affinity, preferred=tuple(others))
    return msgspec.structs.replace(affinity, node_affinity=node_affinity)


def _without(term: NodeSelectorTerm, own: tuple[NodeSelectorRequirement, ...]) -> NodeSelectorTerm:
    """Return the term without our own requirements, which are at its end and never alone."""
    is_ours = term.match_fields[-len(own) :] == own and term != NodeSelectorTerm(match_fields=own)
    return msgspec.structs.replace(term, match_fields=term.match_fields[: -len(own)]) if is_ours else term


def _with_terms(affinity: Affinity, terms: tuple[NodeSelectorTerm, ...] | None) -> Affinity:
    required = None if terms is None else NodeSelector(terms)
    node_affinity = msgspec.structs.replace(affinity.node_affinity, required=required)
    return msgspec.structs.replace(affinity, node_affinity=node_affinity)
