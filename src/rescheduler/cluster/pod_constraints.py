"""The scheduling constraints of a pod, in the structure of the Kubernetes API.

The API's JSON converts directly into these types. They are frozen and hashable, so that pods with equal
constraints compare equal. Nothing is validated here: an invalid selector is kept, and the rules reject the
pod.
"""

import msgspec

from kubevalues import Selector, selector_from_object

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
]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class LabelSelectorRequirement(msgspec.Struct, frozen=True, gc=False):
    """`operator` is one of In, NotIn, Exists, DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """As written; `selector()` is what it means."""

    match_labels: tuple[tuple[str, str], ...] = ()
    """Sorted by key."""
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()

    def selector(self) -> Selector:
        """Raises `SelectorError` where Kubernetes would not accept it either."""
        expressions = [msgspec.structs.asdict(expression) for expression in self.match_expressions]
        return selector_from_object({"matchLabels": dict(self.match_labels), "matchExpressions": expressions})


class NodeSelectorRequirement(msgspec.Struct, frozen=True, gc=False):
    """`operator` is one of In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """All its requirements must hold; a term without any matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One of its terms must hold."""

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
    """Which pods are meant, and how far "together" reaches.

    No `label_selector` matches no pod, an empty one every pod. No `namespace_selector` and no `namespaces`
    mean the pod's own namespace; an empty `namespace_selector` means every namespace.
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
    """For both directions: with these pods, or (anti-affinity) away from them."""

    required: tuple[PodAffinityTerm, ...] = ()
    preferred: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


class Toleration(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """No operator means Equal; an empty key with Exists tolerates every taint; no effect, every effect."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """No policy means Honor for affinity and Ignore for taints."""

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
    """What the scheduler looks at beside resources, volumes and affinity."""

    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    spread: tuple[TopologySpreadConstraint, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    needed_features: tuple[str, ...] = ()
    """Of those a node declares in `status.declaredFeatures`."""
