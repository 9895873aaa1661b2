"""The record of a pod. It is as small as possible, because there can be 150,000 pods.

All pods of a template share one `PodShape`; what differs between them is in `PodRecord`. Times are seconds
since 1970. Records are immutable, including their labels.

This module also defines which states mean that a container can't run, for failing pods and for copies alike.
The kubelet's reasons are in its `pkg/kubelet/images/types.go` and `pkg/kubelet/kuberuntime`. Reasons that are
not listed here, such as CreateContainerConfigError, RunContainerError or PostStartHookError, are errors.

It also defines which security contexts give access to the host: those that the Pod Security Standard
`baseline` forbids. The admission policy for copies (`rescheduler.install.copy_policies`) refuses the same;
a test compares both.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from rescheduler.cluster.object_meta import OwnerReference
from rescheduler.cluster.pod_constraints import Affinity, SchedulingConstraints
from rescheduler.cluster.resource_amounts import Resources

__all__ = [
    "BASELINE_CAPABILITIES",
    "CLAIM_VOLUME",
    "CRASH_LOOP",
    "EMPTY_DIR_VOLUME",
    "HOST_PATH_VOLUME",
    "IMAGE_ERRORS",
    "NODE_BOUND_KINDS",
    "Container",
    "ContainerState",
    "ContainerStateRunning",
    "ContainerStateTerminated",
    "ContainerStateWaiting",
    "ContainerStatus",
    "PodCondition",
    "PodRecord",
    "PodShape",
    "PodVolume",
    "SecurityContext",
    "belongs_to_node",
    "cant_run_reason",
    "handles_own_eviction",
    "host_access_of",
    "is_rescheduler_pod",
    "is_starting",
    "keeps_transition_time",
    "resize_is_infeasible",
    "statefulset_ordinal",
    "waiting_error",
]

CLAIM_VOLUME: Final = "persistentVolumeClaim"
EMPTY_DIR_VOLUME: Final = "emptyDir"
HOST_PATH_VOLUME: Final = "hostPath"


class PodVolume(msgspec.Struct, frozen=True, gc=False):
    """A volume. Volumes that only provide configuration (config maps, secrets, tokens, images) are not
    recorded."""

    kind: str
    """The name of its source in the API. A generic ephemeral volume counts as the claim made for it."""
    name: str = ""
    """The name of the claim, disk, path, CSI driver, `pool/image` or medium that it refers to."""
    read_only: bool = False
    monitors: tuple[str, ...] = ()
    """The monitors of a Ceph RBD. Two images are the same if they share a monitor, the pool and the name."""
    ephemeral: bool = False
    """Whether its claim is created for this pod and deleted with it."""


class Container(msgspec.Struct, frozen=True, gc=False):
    """A container of the pod's spec."""

    name: str
    image: str = ""
    requests: Resources = Resources()
    limits: Resources = Resources()
    restarts_always: bool = False
    """Whether an init container is a sidecar, which starts in order and runs as long as the pod."""
    ends_abruptly: bool = False
    """Whether it declares ports and has no preStop hook: it gets SIGTERM while clients may still call it."""


class PodShape(msgspec.Struct, frozen=True, gc=False):
    """The parts of a pod that come from its template, shared by all pods with the same ones.

    Volumes and affinity are apart: a StatefulSet gives each pod its own claims, a DaemonSet its own node.
    """

    constraints: SchedulingConstraints = SchedulingConstraints()
    requests: Resources = Resources()
    """The requests of a new pod of this shape."""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    scheduler_name: str = ""
    priority: int = 0
    priority_class: str = ""
    never_preempts: bool = False
    """Whether the scheduler never makes room for it by removing pods of lower priority."""
    restart_policy: str = ""
    grace_period_s: int | None = None
    host_network: bool = False
    host_access: str = ""
    """The field that gives it access to its host, as a message, or empty. Volumes are not included."""
    readiness_gates: tuple[str, ...] = ()
    scheduling_gates: tuple[str, ...] = ()
    resource_claims: tuple[str, ...] = ()
    """The names that the pod gives to its claims to devices (DRA)."""
    scheduling_group: str | None = None
    """The pod group that the scheduler places as a unit; the name may be empty."""


class ContainerStateWaiting(msgspec.Struct, frozen=True, gc=False):
    """The container does not run yet, or not again: `reason` says why (ContainerCreating, CrashLoopBackOff,
    ImagePullBackOff, …)."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(msgspec.Struct, frozen=True, gc=False):
    """The container runs. The start time is not kept, so that running pods can share one status."""


class ContainerStateTerminated(msgspec.Struct, frozen=True, gc=False):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    started_s: int = 0
    finished_s: int = 0


ContainerState = ContainerStateWaiting | ContainerStateRunning | ContainerStateTerminated


class ContainerStatus(msgspec.Struct, frozen=True, gc=False):
    name: str
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class PodCondition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    since_s: int = 0
    """0 unless `keeps_transition_time`."""


_MILESTONES = frozenset({"PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady"})


def keeps_transition_time(kind: str, status: str) -> bool:
    """Return whether to keep the condition's time: the times on the way to Ready are of no use later, and
    there are many."""
    return status != "True" or kind not in _MILESTONES


BASELINE_CAPABILITIES: Final = (
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
)
"""The capabilities that the Pod Security Standard `baseline` lets a container add."""


class _WindowsOptions(msgspec.Struct, rename="camel"):
    host_process: bool = False


class _Capabilities(msgspec.Struct, rename="camel"):
    add: list[str] = []


class SecurityContext(msgspec.Struct, rename="camel"):
    """The fields of the security context of a container or a pod that give access to the host; a pod has only
    `windows_options`."""

    capabilities: _Capabilities = msgspec.field(default_factory=_Capabilities)
    privileged: bool = False
    proc_mount: str = ""
    windows_options: _WindowsOptions = msgspec.field(default_factory=_WindowsOptions)


def host_access_of(context: SecurityContext) -> Iterator[str]:
    """Yield each setting that gives access to the host, by its name in the API."""
    if context.privileged:
        yield "privileged"
    if context.proc_mount not in {"", "Default"}:
        yield f"procMount {context.proc_mount}"
    if context.windows_options.host_process:
        yield "windowsOptions.hostProcess"
    for capability in context.capabilities.add:
        if capability not in BASELINE_CAPABILITIES:
            yield f"capability {capability}"


class PodRecord(msgspec.Struct, frozen=True, gc=False):
    key: str
    """`namespace/name`."""
    namespace: str
    uid: str = ""
    resource_version: str = ""
    created_s: int = 0
    deleted_s: int | None = None
    """When its grace period ends; None if it is not being deleted."""
    deletion_grace_s: int | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    """The annotations that records keep (`is_kept_annotation`)."""
    owners: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    node: str = ""
    """Empty while it is not scheduled."""
    shape: PodShape = PodShape()
    affinity: Affinity = Affinity()
    volumes: tuple[PodVolume, ...] = ()
    requests: Resources = Resources()
    """The requests that the scheduler counts on its node. They differ from the shape's during a resize."""

    phase: str = ""
    reason: str = ""
    """The reason in the status: `Evicted`, `NodeLost`, …"""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    started_s: int | None = None
    """When its kubelet accepted it."""
    nominated_node: str = ""
    resize: str = ""
    """The resize state of servers before 1.33; later servers use conditions (PodResizePending, …)."""

    @property
    def name(self) -> str:
        return self.key[len(self.namespace) + 1 :]

    @property
    def owner(self) -> OwnerReference | None:
        """Return the owner that controls the pod: there is at most one."""
        for owner in self.owners:
            if owner.controller:
                return owner
        return None

    @property
    def priority(self) -> int:
        return self.shape.priority

    @property
    def constraints(self) -> SchedulingConstraints:
        return self.shape.constraints

    @property
    def is_terminating(self) -> bool:
        return self.deleted_s is not None

    @property
    def is_finished(self) -> bool:
        return self.phase in {"Succeeded", "Failed"}

    @property
    def is_active(self) -> bool:
        """Return whether its controller counts it, as in Kubernetes: neither finished nor being deleted."""
        return self.deleted_s is None and not self.is_finished

    @property
    def is_ready(self) -> bool:
        # This is called for every pod of a cluster, like `owner`: a loop takes a third of the time of `any`.
        for condition in self.conditions:
            if condition.type == "Ready":
                return condition.status == "True"
        return False

    def condition(self, kind: str) -> PodCondition | None:
        return next((condition for condition in self.conditions if condition.type == kind), None)


def resize_is_infeasible(conditions: tuple[PodCondition, ...]) -> bool:
    """Return whether the node can never grant the resources that the spec requests now."""
    for condition in conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


_MAX_ORDINAL_DIGITS: Final = 10
"""The most digits of an ordinal. Users choose pod names, so longer numbers occur."""


def statefulset_ordinal(name: str, stateful_set: str) -> int | None:
    """Return the ordinal of a pod of that StatefulSet; None if the name is not that of one of its pods."""
    stem, _, number = name.rpartition("-")
    is_number = number.isascii() and number.isdecimal() and len(number) <= _MAX_ORDINAL_DIGITS
    return int(number) if stem == stateful_set and is_number else None


NODE_BOUND_KINDS = frozenset({"DaemonSet", "Node"})
"""Kinds of owners whose pods are created and deleted with their node."""
_MIRROR_ANNOTATION = "kubernetes.io/config.mirror"


def is_rescheduler_pod(pod: PodRecord) -> bool:
    """Return whether rescheduler itself runs in the pod."""
    return pod.labels.get("app.kubernetes.io/name") == "rescheduler"


def belongs_to_node(pod: PodRecord) -> bool:
    """Return whether the pod is created and deleted with its node: a pod of a DaemonSet, or a mirror pod of
    the kubelet."""
    return _MIRROR_ANNOTATION in pod.annotations or (
        pod.owner is not None and pod.owner.kind in NODE_BOUND_KINDS
    )


_EVICTION_REQUEST_ONLY: Final = "descheduler.alpha.kubernetes.io/request-evict-only"
"""The descheduler's annotation of pods that another component moves when they are evicted."""


def handles_own_eviction(pod: PodRecord) -> bool:
    """Return whether an eviction makes another component move the pod, as KubeVirt does with the pods of
    virtual machines (virt-launcher), which it live-migrates."""
    owner = pod.owner
    is_virtual_machine = (
        owner is not None
        and owner.kind == "VirtualMachineInstance"
        and owner.api_version.startswith("kubevirt.io/")
    )
    return is_virtual_machine or _EVICTION_REQUEST_ONLY in pod.annotations


CRASH_LOOP: Final = "CrashLoopBackOff"

_STARTING: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
_SINGLE_PULL_FAILURES: Final = frozenset({"ErrImagePull", "RegistryUnavailable", "SignatureValidationFailed"})
IMAGE_ERRORS: Final = _SINGLE_PULL_FAILURES | {
    "ErrImageNeverPull",
    "ImageInspectError",
    "ImagePullBackOff",
    "InvalidImageName",
}


def is_starting(status: ContainerStatus) -> bool:
    """Return whether the container waits without an error."""
    return isinstance(status.state, ContainerStateWaiting) and status.state.reason in _STARTING


def waiting_error(status: ContainerStatus) -> str:
    """Return the reason why the container waits, if that is an error; otherwise an empty string."""
    state = status.state
    return state.reason if isinstance(state, ContainerStateWaiting) and not is_starting(status) else ""


def cant_run_reason(status: ContainerStatus) -> str:
    """Return the error because of which the container won't run soon; otherwise an empty string."""
    error = waiting_error(status)
    # If a failed pull is not the last one, ImagePullBackOff follows within seconds.
    return "" if error in _SINGLE_PULL_FAILURES else error
