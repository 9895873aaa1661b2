"""The filters that look at one node and the pods on it.

They are NodeAffinity, TaintToleration, NodeUnschedulable, NodeResourcesFit, NodeDeclaredFeatures, NodePorts
and NodeName.
"""

from collections.abc import Iterable, Iterator, Mapping

from kubesim.apiserver.api_messages import Object
from kubesim.scheduler.fit_errors import Check, FilterRejection
from kubesim.scheduler.node_info import NodeInfo, PodInfo
from kubesim.scheduler.scheduler_cache import SchedulerCache
from kubevalues import Selector, SelectorError, node_requirements_from_object

__all__ = [
    "WantedNodes",
    "declared_features",
    "has_untolerated_taint",
    "host_ports",
    "matches_any_term",
    "matches_term",
    "node_affinity",
    "node_name",
    "resources",
    "taints",
    "unschedulable",
]

_NAME = "NodeAffinity"
_AFFINITY_MISMATCH = FilterRejection(_NAME, ("node(s) didn't match Pod's node affinity/selector",))
_NOT_NAMED = FilterRejection(_NAME, ("node(s) didn't satisfy plugin(s) [NodeAffinity]",))
_CONTRADICTION = FilterRejection(_NAME, ("pod affinity terms conflict",))


def node_affinity(pod: PodInfo, _: SchedulerCache) -> Check | FilterRejection | None:
    wanted = WantedNodes(pod)
    if wanted.everywhere:
        return None
    named = _named_nodes(wanted.terms) if wanted.terms else None
    if named is not None and not named:
        return _CONTRADICTION

    def check(node: NodeInfo) -> FilterRejection | None:
        if named is not None and node.name not in named:
            return _NOT_NAMED
        return None if wanted.include(node) else _AFFINITY_MISMATCH

    return check


class WantedNodes:
    """The node selector and required node affinity of one pod."""

    def __init__(self, pod: PodInfo) -> None:
        self._labels: Mapping[str, str] = pod.spec.get("nodeSelector") or {}
        affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
        self.terms: tuple[Object, ...] | None = None
        if required is not None:
            self.terms = tuple(required.get("nodeSelectorTerms") or ())
        self._read = None if self.terms is None else tuple(map(_Term, self.terms))

    @property
    def everywhere(self) -> bool:
        return not self._labels and self._read is None

    def include(self, node: NodeInfo) -> bool:
        for key, value in self._labels.items():
            if node.labels.get(key) != value:
                return False
        if self._read is None:
            return True
        return any(term.matches(node.labels, node.name) for term in self._read)


def matches_term(term: Object, node: NodeInfo) -> bool:
    return _Term(term).matches(node.labels, node.name)


def matches_any_term(terms: Iterable[Object], labels: Mapping[str, str]) -> bool:
    """Match the node affinity of a volume, where conditions on the node's name count as met."""
    return any(_Term(term).matches(labels, None) for term in terms)


class _Term:
    """A node selector term; without conditions, or with an invalid one, it matches no node."""

    def __init__(self, term: Object) -> None:
        self._fields: list[Object] = term.get("matchFields") or []
        expressions = term.get("matchExpressions")
        self._labels: Selector | None = None
        self._never = not expressions and not self._fields
        if expressions:
            try:
                self._labels = node_requirements_from_object(expressions)
            except SelectorError:
                self._never = True
        self._never |= any(len(field.get("values") or ()) != 1 for field in self._fields)

    def matches(self, labels: Mapping[str, str], name: str | None) -> bool:
        if self._never or (self._labels is not None and not self._labels.matches(labels)):
            return False
        return name is None or all(_field_matches(field, name) for field in self._fields)


def _field_matches(field: Object, name: str) -> bool:
    """Match a field; the only supported one is `metadata.name`."""
    named = name if field["key"] == "metadata.name" else ""
    return bool((named == field["values"][0]) is (field["operator"] == "In"))


def _named_nodes(terms: Iterable[Object]) -> frozenset[str] | None:
    """Return the only nodes that the terms allow by name, or None if some term names none."""
    allowed: frozenset[str] = frozenset()
    for term in terms:
        named = [
            frozenset(field.get("values") or ())
            for field in term.get("matchFields") or ()
            if field["key"] == "metadata.name" and field["operator"] == "In"
        ]
        if not named:
            return None
        allowed |= frozenset.intersection(*named)
    return allowed


_CORDONED = FilterRejection("NodeUnschedulable", ("node(s) were unschedulable",))
_TAINTED = FilterRejection("TaintToleration", ("node(s) had untolerated taint(s)",))
_KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})
_UNSCHEDULABLE: Object = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def unschedulable(pod: PodInfo, _: SchedulerCache) -> Check | None:
    if _tolerated(_UNSCHEDULABLE, pod.spec.get("tolerations") or ()):
        return None

    def check(node: NodeInfo) -> FilterRejection | None:
        return _CORDONED if node.unschedulable else None

    return check


def taints(pod: PodInfo, _: SchedulerCache) -> Check:
    def check(node: NodeInfo) -> FilterRejection | None:
        return _TAINTED if has_untolerated_taint(pod, node) else None

    return check


def has_untolerated_taint(pod: PodInfo, node: NodeInfo) -> bool:
    if not node.taints:
        return False
    tolerations = pod.spec.get("tolerations") or ()
    return any(
        taint.get("effect") in _KEEPS_AWAY and not _tolerated(taint, tolerations) for taint in node.taints
    )


def _tolerated(taint: Object, tolerations: Iterable[Object]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Object, taint: Object) -> bool:
    """Return whether the toleration matches; Lt and Gt are behind a disabled feature gate and never match."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    match toleration.get("operator") or "Equal":
        case "Equal":
            return (toleration.get("value") or "") == (taint.get("value") or "")
        case "Exists":
            return True
        case _:
            return False


_ALWAYS_FIRST = ("cpu", "memory", "ephemeral-storage")


def resources(pod: PodInfo, _: SchedulerCache) -> Check:
    """Return the missing resources in the order of the real scheduler: pods, the usual three, then others."""
    asked = [(name, amount) for name in _ALWAYS_FIRST if (amount := pod.wanted.get(name, 0)) > 0]
    asked += sorted(
        (name, amount) for name, amount in pod.wanted.items() if amount > 0 and name not in _ALWAYS_FIRST
    )

    def check(node: NodeInfo) -> FilterRejection | None:
        reasons = ["Too many pods"] if len(node.pods) + 1 > node.room_for_pods else []
        too_small = False
        for name, amount in asked:
            has = node.allocatable.get(name, 0)
            if amount > has - node.requested.get(name, 0):
                reasons.append(f"Insufficient {name}")
                too_small |= amount > has
        return FilterRejection("NodeResourcesFit", tuple(reasons), final=too_small) if reasons else None

    return check


_FEATURES_MISSING = FilterRejection("NodeDeclaredFeatures", ("node(s) didn't match Pod's required features",))


def declared_features(pod: PodInfo, _: SchedulerCache) -> Check | None:
    needed = frozenset(_needed(pod.spec))
    if not needed:
        return None

    def check(node: NodeInfo) -> FilterRejection | None:
        return None if needed <= node.declared_features else _FEATURES_MISSING

    return check


def _needed(spec: Object) -> Iterator[str]:
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    rules = [rule for container in containers for rule in container.get("restartPolicyRules") or ()]
    if any(rule.get("action") == "RestartAllContainers" for rule in rules):
        yield "RestartAllContainersOnContainerExits"
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        yield "UserNamespacesHostNetworkSupport"
    mounts = [
        mount
        for container in (*containers, *(spec.get("ephemeralContainers") or ()))
        for mount in container.get("volumeMounts") or ()
    ]
    if any(mount.get("bindMountOptions") for mount in mounts):
        yield "VolumeBindMountOptions"


_PORTS_TAKEN = FilterRejection(
    "NodePorts", ("node(s) didn't have free ports for the requested pod ports",), final=False
)


def host_ports(pod: PodInfo, _: SchedulerCache) -> Check | None:
    if not pod.host_ports:
        return None

    def check(node: NodeInfo) -> FilterRejection | None:
        taken = (port for other in node.with_ports.values() for port in other.host_ports)
        if any(mine.clashes_with(port) for port in taken for mine in pod.host_ports):
            return _PORTS_TAKEN
        return None

    return check


_OTHER_NODE_NAMED = FilterRejection("NodeName", ("node(s) didn't match the requested node name",))


def node_name(pod: PodInfo, _: SchedulerCache) -> Check | None:
    if not pod.node:
        return None

    def check(node: NodeInfo) -> FilterRejection | None:
        return None if node.name == pod.node else _OTHER_NODE_NAMED

    return check
