"""Convert a trimmed `PodSpec`, as plain dicts and lists, into the parts that pods of one template share.

Both encodings use it, so they can't differ. It runs once per template, not once per pod. Parts
that many objects share are decoded once and stored once.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from kubevalues.quantity import Quantity, quantity_of
from rescheduler.cluster.object_meta import normalized
from rescheduler.cluster.pod_constraints import (
    Affinity,
    HostPort,
    SchedulingConstraints,
    Toleration,
    TopologySpreadConstraint,
)
from rescheduler.cluster.pod_record import (
    CLAIM_VOLUME,
    Container,
    PodShape,
    PodVolume,
    SecurityContext,
    host_access_of,
)
from rescheduler.cluster.resource_amounts import (
    ContainerResourceSpec,
    GrantedResources,
    PodResourceSpec,
    Resources,
    pod_requests,
    resources_of,
)

__all__ = [
    "PER_NODE_CAPACITY",
    "DecodeCache",
    "VolumeSources",
    "affinity_from",
    "requests_from",
    "shape_from",
    "volume_from",
    "volume_sources_of",
    "with_claims_of",
]

Quantities = dict[str, str | int | float]

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - that is what an absent hostIP means


class _Form(msgspec.Struct, rename="camel"):
    pass


class _Resources(_Form):
    requests: Quantities = {}
    limits: Quantities = {}


class _Port(_Form):
    host_port: int = 0
    protocol: str = ""
    host_ip: str = msgspec.field(name="hostIP", default="")


class _RestartRule(_Form):
    action: str = ""


class _Lifecycle(_Form):
    pre_stop: dict[str, Any] | None = None


class _Container(_Form):
    name: str = ""
    image: str = ""
    ports: list[_Port] = []
    lifecycle: _Lifecycle = msgspec.field(default_factory=_Lifecycle)
    security_context: SecurityContext = msgspec.field(default_factory=SecurityContext)
    resources: _Resources = msgspec.field(default_factory=_Resources)
    restart_policy: str = ""
    restart_policy_rules: list[_RestartRule] = []

    @property
    def is_sidecar(self) -> bool:
        return self.restart_policy == "Always"


class _Named(_Form):
    name: str = ""


class _ReadinessGate(_Form):
    condition_type: str = ""


class _SchedulingGroup(_Form):
    pod_group_name: str = ""


class _Spec(_Form):
    containers: list[_Container] = []
    init_containers: list[_Container] = []
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    node_selector: dict[str, str] = {}
    host_network: bool = False
    host_pid: bool = msgspec.field(name="hostPID", default=False)
    host_ipc: bool = msgspec.field(name="hostIPC", default=False)
    security_context: SecurityContext = msgspec.field(default_factory=SecurityContext)
    scheduler_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    priority_class_name: str = ""
    priority: int = 0
    preemption_policy: str = ""
    readiness_gates: list[_ReadinessGate] = []
    overhead: Quantities = {}
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    host_users: bool | None = None
    scheduling_gates: list[_Named] = []
    resource_claims: list[_Named] = []
    resources: _Resources = msgspec.field(default_factory=_Resources)
    scheduling_group: _SchedulingGroup | None = None


class _Condition(_Form):
    type: str = ""
    reason: str = ""


class _ContainerStatus(_Form):
    name: str = ""
    allocated_resources: Quantities = {}
    resources: _Resources = msgspec.field(default_factory=_Resources)


class _Status(_Form):
    container_statuses: list[_ContainerStatus] = []
    init_container_statuses: list[_ContainerStatus] = []
    allocated_resources: Quantities = {}
    resources: _Resources | None = None
    conditions: list[_Condition] = []


def shape_from(spec: Any) -> PodShape:
    """Decode the shape of a pod; raise `msgspec.ValidationError` and `QuantityError`."""
    form = msgspec.convert(normalized(spec), _Spec)
    return PodShape(
        constraints=_constraints(form),
        requests=pod_requests(_pod_request(form)),
        containers=tuple(map(_container, form.containers)),
        init_containers=tuple(map(_container, form.init_containers)),
        scheduler_name=form.scheduler_name,
        priority=form.priority,
        priority_class=form.priority_class_name,
        never_preempts=form.preemption_policy == "Never",
        restart_policy=form.restart_policy,
        grace_period_s=form.termination_grace_period_seconds,
        host_network=form.host_network,
        host_access=_host_access(form),
        readiness_gates=tuple(gate.condition_type for gate in form.readiness_gates),
        scheduling_gates=tuple(gate.name for gate in form.scheduling_gates),
        resource_claims=tuple(claim.name for claim in form.resource_claims),
        scheduling_group=None if form.scheduling_group is None else form.scheduling_group.pod_group_name,
    )


def affinity_from(affinity: Any) -> Affinity:
    """Decode an affinity; raise `msgspec.ValidationError`."""
    return msgspec.convert(normalized(affinity), Affinity)


def requests_from(spec: Any, status: Any) -> Resources:
    """Return the requests of a running pod, from the trimmed spec and the resources in its status."""
    decoded = msgspec.convert(normalized(status), _Status)
    pending = next((each for each in decoded.conditions if each.type == "PodResizePending"), None)
    of_pod = GrantedResources(
        _amounts(decoded.allocated_resources) or None,
        None if decoded.resources is None else _amounts(decoded.resources.requests),
    )
    return pod_requests(
        _pod_request(msgspec.convert(normalized(spec), _Spec)),
        _by_container((*decoded.container_statuses, *decoded.init_container_statuses)),
        pod_granted=of_pod,
        resize_infeasible=pending is not None and pending.reason == "Infeasible",
    )


def _container(form: _Container) -> Container:
    return Container(
        name=form.name,
        image=form.image,
        requests=resources_of(_amounts(form.resources.requests)),
        limits=resources_of(_amounts(form.resources.limits)),
        restarts_always=form.is_sidecar,
        ends_abruptly=bool(form.ports) and form.lifecycle.pre_stop is None,
    )


def _host_access(spec: _Spec) -> str:
    """Return the first field that gives the pod access to its host; volumes are not part of the shape."""
    of_pod = {"hostNetwork": spec.host_network, "hostPID": spec.host_pid, "hostIPC": spec.host_ipc}
    found = [name for name, is_set in of_pod.items() if is_set]
    found += host_access_of(spec.security_context)
    for each in (*spec.containers, *spec.init_containers):
        found += (f"{what} of container {each.name}" for what in host_access_of(each.security_context))
    return next(iter(found), "")


def _constraints(spec: _Spec) -> SchedulingConstraints:
    return SchedulingConstraints(
        node_selector=tuple(sorted(spec.node_selector.items())),
        tolerations=spec.tolerations,
        spread=spec.topology_spread_constraints,
        host_ports=tuple(_host_ports(spec)),
        needed_features=tuple(_needed_features(spec)),
    )


def _host_ports(spec: _Spec) -> Iterable[HostPort]:
    # Other init containers end before the pod runs, so the scheduler ignores their ports.
    sidecars = (container for container in spec.init_containers if container.is_sidecar)
    for container in (*sidecars, *spec.containers):
        for port in container.ports:
            if port.host_port:
                yield HostPort(port.host_port, port.protocol or "TCP", port.host_ip or ANY_ADDRESS)


def _needed_features(spec: _Spec) -> Iterable[str]:
    """Yield the features that a node must declare for such a pod, as the scheduler infers them."""
    if spec.host_network and spec.host_users is False:
        yield "UserNamespacesHostNetworkSupport"
    containers = (*spec.init_containers, *spec.containers)
    rules = (rule for container in containers for rule in container.restart_policy_rules)
    if any(rule.action == "RestartAllContainers" for rule in rules):
        yield "RestartAllContainersOnContainerExits"


def _pod_request(spec: _Spec) -> PodResourceSpec:
    return PodResourceSpec(
        containers=tuple(map(_container_request, spec.containers)),
        init_containers=tuple(map(_container_request, spec.init_containers)),
        overhead=_amounts(spec.overhead),
        pod_level=_amounts(spec.resources.requests),
    )


def _container_request(form: _Container) -> ContainerResourceSpec:
    return ContainerResourceSpec(form.name, _amounts(form.resources.requests), form.is_sidecar)


def _by_container(statuses: Iterable[_ContainerStatus]) -> dict[str, GrantedResources]:
    """Return the granted resources by container. As in Kubernetes, the first of two statuses with one name
    counts."""
    found: dict[str, GrantedResources] = {}
    for status in statuses:
        found.setdefault(status.name, _granted(status))
    return found


def _granted(status: _ContainerStatus) -> GrantedResources:
    return GrantedResources(
        _amounts(status.allocated_resources) or None, _amounts(status.resources.requests) or None
    )


def _amounts(quantities: Quantities) -> dict[str, Quantity]:
    return {name: quantity_of(value) for name, value in quantities.items()}


_NAME_FIELDS: Final = {
    CLAIM_VOLUME: "claimName",
    "hostPath": "path",
    "emptyDir": "medium",
    "gcePersistentDisk": "pdName",
    "awsElasticBlockStore": "volumeID",
    "azureDisk": "diskName",
    "cinder": "volumeID",
    "vsphereVolume": "volumePath",
    "portworxVolume": "volumeID",
    "iscsi": "iqn",
    "rbd": "image",
    "csi": "driver",
}
"""The field of each source that names what it refers to."""
_KINDS_WITHOUT_NAME: Final = frozenset(
    {
        "nfs", "glusterfs", "flexVolume", "cephfs", "flocker", "fc", "azureFile", "quobyte",
        "photonPersistentDisk", "scaleIO", "storageos",
    }
)  # fmt: skip
_EPHEMERAL: Final = "ephemeral"
_RECORDED_KINDS: Final = frozenset({*_NAME_FIELDS, _EPHEMERAL, *_KINDS_WITHOUT_NAME})
"""All other kinds only provide configuration."""
_DEFAULT_RBD_POOL: Final = "rbd"


class VolumeSources(NamedTuple):
    """The volumes of one spec, without their names."""

    aligned: tuple[PodVolume | None, ...]
    """One entry per volume of the spec; None if it only provides configuration."""
    recorded: tuple[PodVolume, ...]
    has_ephemeral: bool


def volume_sources_of(volumes: Iterable[PodVolume | None]) -> VolumeSources:
    aligned = tuple(volumes)
    recorded = tuple(volume for volume in aligned if volume is not None)
    return VolumeSources(aligned, recorded, any(volume.ephemeral for volume in recorded))


def with_claims_of(pod: str, sources: VolumeSources, names: list[str]) -> tuple[PodVolume, ...]:
    """Return the pod's volumes, with the claims of its generic ephemeral volumes, named after pod and
    volume."""
    return tuple(
        PodVolume(CLAIM_VOLUME, f"{pod}-{name}", ephemeral=True) if volume.ephemeral else volume
        for volume, name in zip(sources.aligned, names, strict=True)
        if volume is not None
    )


def volume_from(source: dict[str, Any]) -> PodVolume | None:
    """Decode a volume; None if it only provides configuration. Raise `msgspec.ValidationError`."""
    kind = next((kind for kind in source if kind in _RECORDED_KINDS), None)
    if kind is None:
        return None
    if kind == _EPHEMERAL:
        return PodVolume(CLAIM_VOLUME, ephemeral=True)
    if kind in _KINDS_WITHOUT_NAME:
        return PodVolume(kind)
    detail = msgspec.convert(source[kind], dict[str, Any])
    name = msgspec.convert(detail.get(_NAME_FIELDS[kind], ""), str)
    read_only = msgspec.convert(detail.get("readOnly", False), bool)
    if kind != "rbd":
        return PodVolume(kind, name, read_only)
    pool = msgspec.convert(detail.get("pool") or _DEFAULT_RBD_POOL, str)
    return PodVolume(
        kind, f"{pool}/{name}", read_only, msgspec.convert(detail.get("monitors", ()), tuple[str, ...])
    )


PER_NODE_CAPACITY = 16_384
"""Capacity for parts of which there is one per node, such as the affinity of a DaemonSet's pods."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class DecodeCache(dict[K, V]):
    """A cache of `make(key)` for the keys that were used recently.

    It never holds more than twice its capacity: when it is full, its entries become the older generation.
    Entries that are used again move back; the others are dropped when the cache is full again. A
    dropped value stays valid; an equal one may be built later.
    """

    __slots__ = ("_make", "_older", "capacity")

    def __init__(self, make: Callable[[K], V], capacity: int = 4096) -> None:
        super().__init__()
        self._make = make
        self.capacity = capacity
        self._older: dict[K, V] = {}

    def __missing__(self, key: K) -> V:
        value = self._older[key] if key in self._older else self._make(key)
        if len(self) >= self.capacity:
            self._older = dict(self)
            self.clear()
        self[key] = value
        return value

    @property
    def held(self) -> int:
        """Return how many entries both generations have."""
        return len(self) + len(self._older)
