"""Replace words by pseudonyms in the same sort order, and list the well-known words that stay.

Names are split at their separators and each word is replaced, so related names stay related: the pods of
`web-7f9c4` are `w017-w003-…` of `w017-w003`. Words are numbered in sorted order with equal length, and
every separator sorts before every letter. So names sort as before, and a planner that breaks ties by name
decides as before. First collect all words, then replace them.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from rescheduler.api import well_known_names
from rescheduler.api.podmigration import BUILT_IN_TRAITS, Handover

__all__ = [
    "ADDRESSES",
    "CONDITIONS",
    "DOMAINS",
    "DRIVERS",
    "GROUPS",
    "KEYS",
    "KINDS",
    "MEANINGFUL",
    "NAMES",
    "NAMESPACES",
    "RECORDS",
    "RECORD_BY_NAME",
    "RESOURCES",
    "RESOURCE_PREFIXES",
    "VALUES",
    "WORDS",
    "NamePseudonyms",
    "NamespacePseudonyms",
    "NumberPseudonyms",
    "UidPseudonyms",
]

_SEPARATORS = re.compile(r"([-_./:@^,=+~\s]+)")


class NamePseudonyms:
    """Pseudonyms for names of any kind."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._ordinal_names: set[str] = set()
        self._assigned: dict[str, str] | None = None
        self._cache: dict[str, str] = {}

    def add_ordinal_name(self, pod: str) -> None:
        """Keep the number at the end of this name of a StatefulSet's pod, because its controller relies on
        it."""
        self._ordinal_names.add(pod)

    def assign(self) -> None:
        width = len(str(len(self._seen)))
        self._assigned = {word: f"w{place:0{width}d}" for place, word in enumerate(sorted(self._seen), 1)}

    def __call__(self, name: str) -> str:
        if self._assigned is None:
            self._seen.update(_parts(name)[::2])
            return name
        if name not in self._cache:
            self._cache[name] = self._replaced(name)
        return self._cache[name]

    def _replaced(self, name: str) -> str:
        assert self._assigned is not None
        parts = _parts(name)
        words = [
            part if place % 2 or not part or self._is_ordinal(parts, place) else self._assigned[part]
            for place, part in enumerate(parts)
        ]
        return "".join(words)

    def _is_ordinal(self, parts: tuple[str, ...], place: int) -> bool:
        if not parts[place].isdecimal():
            return False
        return any("".join(parts[first : place + 1]) in self._ordinal_names for first in range(0, place, 2))


@lru_cache(maxsize=65_536)
def _parts(name: str) -> tuple[str, ...]:
    """Split a name into words at even places and separators at odd places."""
    return tuple(_SEPARATORS.split(name))


_STEMS = ("area", "group", "space")


class NamespacePseudonyms:
    """Pseudonyms for namespaces: well-known names stay, and the others keep their order among them."""

    def __init__(self, kept: Iterable[str]) -> None:
        self._kept = frozenset(kept)
        self._seen: set[str] = set()
        self._assigned: dict[str, str] | None = None

    def assign(self) -> None:
        names = sorted(self._seen - self._kept, key=_in_keys)
        width = len(str(len(names)))
        self._assigned = {name: name for name in self._kept}
        for place, name in enumerate(names, 1):
            self._assigned[name] = f"{self._stem(name)}{place:0{width}d}"

    def _stem(self, name: str) -> str:
        """Return a stem that sorts where the name does, among the names that stay."""
        before = max((kept for kept in self._kept if _in_keys(kept) < _in_keys(name)), default="")
        after = min((kept for kept in self._kept if _in_keys(kept) > _in_keys(name)), default="~")
        # 0 comes before every letter, and after the slash that ends a namespace in a pod's key.
        return next((stem for stem in _STEMS if before < stem < after), f"{before}0")

    def __call__(self, name: str) -> str:
        if self._assigned is None:
            self._seen.add(name)
            return name
        return self._assigned.get(name, name)


def _in_keys(namespace: str) -> str:
    """Return the text by which the namespace sorts in `namespace/name`."""
    return f"{namespace}/"


class UidPseudonyms:
    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._assigned: dict[str, str] | None = None

    def assign(self) -> None:
        self._assigned = {
            uid: f"00000000-0000-4000-8000-{place:012d}" for place, uid in enumerate(sorted(self._seen), 1)
        }

    def knows(self, text: str) -> bool:
        return self._assigned is not None and text in self._assigned

    def __call__(self, uid: str) -> str:
        if self._assigned is None:
            self._seen.add(uid)
            return uid
        return self._assigned[uid]


_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,30}")


class NumberPseudonyms:
    """Pseudonyms for label values that are compared as numbers; they keep their order."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._seen: set[int] = set()
        self._assigned: dict[int, int] | None = None

    def add_numeric_key(self, key: str) -> None:
        self._keys.add(key)

    def assign(self) -> None:
        self._assigned = {number: place for place, number in enumerate(sorted(self._seen), 1)}

    def has(self, key: str, value: str) -> bool:
        """Return whether the value is a number, written so that the text can be restored."""
        return key in self._keys and _NUMBER.fullmatch(value) is not None

    def __call__(self, value: str) -> str:
        if self._assigned is None:
            self._seen.add(int(value))
            return value
        return str(self._assigned[int(value)])


NAMESPACES: Final = frozenset({"default", "kube-node-lease", "kube-public", "kube-system"})

NAMES: Final = frozenset({"default-scheduler", "system-cluster-critical", "system-node-critical"})

KINDS: Final = frozenset(
    {
        "CronJob", "DaemonSet", "Deployment", "Job", "Namespace", "Node", "Pod", "PodMigration",
        "ReplicaSet", "ReplicationController", "StatefulSet",
    }
)  # fmt: skip

GROUPS: Final = frozenset(
    {
        "apps", "autoscaling", "batch", "extensions", "metrics.k8s.io", "policy", "rescheduler.dev",
        "scheduling.k8s.io", "storage.k8s.io",
    }
)  # fmt: skip
"""The API groups of kinds."""

MEANINGFUL: Final = {
    well_known_names.MAINTENANCE_LABEL: {"true", "false"},
    well_known_names.RESCHEDULING_LABEL: {"disabled", "enabled"},
    well_known_names.MIGRATION_STATUS_LABEL: {"pending", "in-progress", "completed"},
    well_known_names.MIGRATION_REASON_LABEL: set(BUILT_IN_TRAITS),
    well_known_names.CORDONED_BY_ANNOTATION: {"CostOptimization", "Evacuation", "NodeMaintenance"},
    well_known_names.HANDOVER_ANNOTATION: {each.value for each in Handover},
    well_known_names.INCLUDES_SYSTEM_ANNOTATION: {"true", "false"},
    "app.kubernetes.io/name": {"rescheduler"},
    "cluster-autoscaler.kubernetes.io/safe-to-evict": {"true", "false"},
    "karpenter.sh/do-not-disrupt": {"true", "false"},
    "karpenter.sh/do-not-evict": {"true", "false"},
    "cluster-autoscaler.kubernetes.io/scale-down-disabled": {"true", "false"},
    "karpenter.sh/capacity-type": {"spot", "on-demand", "reserved"},
    "kubernetes.io/arch": {"amd64", "arm64", "arm", "ppc64le", "s390x", "386"},
    "kubernetes.io/os": {"linux", "windows"},
    "beta.kubernetes.io/arch": {"amd64", "arm64", "arm", "ppc64le", "s390x", "386"},
    "beta.kubernetes.io/os": {"linux", "windows"},
    "pv.kubernetes.io/bind-completed": {"yes"},
    "storageclass.kubernetes.io/is-default-class": {"true", "false"},
}  # fmt: skip
"""Keys of labels and annotations, with the values of each that have a meaning."""

KEYS: Final = frozenset(
    {
        *MEANINGFUL,
        well_known_names.MIGRATION_ID_LABEL,
        well_known_names.MIGRATED_FROM_LABEL,
        well_known_names.MIGRATION_TIME_ANNOTATION,
        well_known_names.ORIGINAL_POD_ANNOTATION,
        well_known_names.ORIGINAL_POD_NAME_ANNOTATION,
        well_known_names.AVOIDED_NODES_ANNOTATION,
        well_known_names.CONTINUES_ANNOTATION,
        well_known_names.FAILED_ATTEMPTS_ANNOTATION,
        well_known_names.MAX_MOVES_ANNOTATION,
        well_known_names.WINDOWS_ANNOTATION,
        well_known_names.NEXT_HOP_ANNOTATION,
        well_known_names.STEERED_BY_ANNOTATION,
        well_known_names.FINALIZER,
        "scheduling-retries",
        "scheduling.x-k8s.io/pod-group",
        # labels
        "app.kubernetes.io/component", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by",
        "app.kubernetes.io/part-of", "app.kubernetes.io/version", "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-completion-index",
        "batch.kubernetes.io/job-name", "beta.kubernetes.io/instance-type", "controller-revision-hash",
        "controller-uid", "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone", "job-name", "karpenter.sh/nodepool",
        "kubernetes.io/hostname", "kubernetes.io/metadata.name", "node-role.kubernetes.io/control-plane",
        "node-role.kubernetes.io/master", "node-role.kubernetes.io/worker",
        "node.kubernetes.io/exclude-from-external-load-balancers", "node.kubernetes.io/instance-type",
        "pod-template-generation", "pod-template-hash", "statefulset.kubernetes.io/pod-name",
        "topology.kubernetes.io/region", "topology.kubernetes.io/zone",
        # taints
        "node.cloudprovider.kubernetes.io/uninitialized", "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/memory-pressure", "node.kubernetes.io/network-unavailable",
        "node.kubernetes.io/not-ready", "node.kubernetes.io/out-of-service",
        "node.kubernetes.io/pid-pressure", "node.kubernetes.io/unreachable",
        "node.kubernetes.io/unschedulable", "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption",
        # annotations
        "descheduler.alpha.kubernetes.io/evict", "descheduler.alpha.kubernetes.io/prefer-no-eviction",
        "descheduler.alpha.kubernetes.io/request-evict-only",
        "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes",
        "controller.kubernetes.io/pod-deletion-cost", "kubernetes.io/config.mirror",
        "storage.alpha.kubernetes.io/migrated-plugins", "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/selected-node",
        # finalizers
        "batch.kubernetes.io/job-tracking", "external-attacher/driver", "foregroundDeletion",
        "kubernetes", "kubernetes.io/pv-protection", "kubernetes.io/pvc-protection", "orphan",
    }
)  # fmt: skip
"""The keys of labels, taints, annotations and finalizers."""

DOMAINS: Final = frozenset(key.rpartition("/")[0] for key in KEYS if "/" in key)
"""Prefixes whose unknown keys are public, too; other keys may be private, also under k8s.io."""

VALUES: Final = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "controller.kubernetes.io/pod-deletion-cost",
        "pod-template-generation",
        well_known_names.MIGRATION_TIME_ANNOTATION,
        "scheduling-retries",
        "storage.alpha.kubernetes.io/migrated-plugins",
    }
)
"""Keys whose values are numbers, times or drivers."""

CONDITIONS: Final = frozenset(
    {
        # of pods
        "ContainersReady", "DisruptionTarget", "Initialized", "PodReadyToStartContainers",
        "PodResizeInProgress", "PodResizePending", "PodScheduled", "Ready", "ContainersNotInitialized",
        "ContainersNotReady", "Deferred", "DeletionByPodGC", "Error", "DeletionByTaintManager",
        "EvictionByEvictionAPI", "Infeasible", "PodCompleted", "PodFailed", "PreemptionByScheduler",
        "ReadinessGatesNotReady", "SchedulerError", "SchedulingGated", "TerminationByKubelet",
        "Unschedulable", "WaitingForScheduler", "Evicted", "NodeAffinity", "NodeLost", "NodeShutdown",
        "OutOfcpu", "OutOfmemory", "OutOfpods", "Preempting", "Shutdown", "Terminated",
        "UnexpectedAdmissionError", "DeadlineExceeded",
        # of containers
        "Completed", "ContainerCannotRun", "ContainerCreating", "ContainerStatusUnknown",
        "CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull",
        "ErrImagePull", "ImageInspectError", "ImagePullBackOff", "InvalidImageName", "OOMKilled",
        "PodInitializing", "PostStartHookError", "RunContainerError", "StartError",
        # of nodes
        "DiskPressure", "MemoryPressure", "NetworkUnavailable", "PIDPressure", "KubeletHasDiskPressure",
        "KubeletHasInsufficientMemory", "KubeletHasNoDiskPressure", "KubeletHasSufficientMemory",
        "KubeletHasSufficientPID", "KubeletNotReady", "KubeletReady", "NodeStatusNeverUpdated",
        "NodeStatusUnknown", "RouteCreated",
        # of workloads and budgets
        "Available", "BackoffLimitExceeded", "Complete", "CompletionsReached", "DisruptionAllowed",
        "Failed", "FailureTarget", "FoundNewReplicaSet", "InsufficientPods", "MinimumReplicasAvailable",
        "MinimumReplicasUnavailable", "NewReplicaSetAvailable", "NewReplicaSetCreated", "Progressing",
        "ProgressDeadlineExceeded", "ReplicaFailure", "ReplicaSetUpdated", "SufficientPods",
        "SuccessCriteriaMet", "Suspended", "SyncFailed",
        # of migrations
        "BudgetAllows", "CopyReady", "HandedOver", "Marked", "RolledBack", "Steered",
        well_known_names.EMPTY_CONDITION,
    }
)  # fmt: skip
"""Types of conditions, and reasons."""

RESOURCES: Final = frozenset({"cpu", "memory", "pods", "ephemeral-storage", "storage"})
RESOURCE_PREFIXES: Final = ("hugepages-", "attachable-volumes-")
"""Prefixes before a size or a driver."""

DRIVERS: Final = frozenset(
    {
        "cinder.csi.openstack.org", "csi.vsphere.vmware.com", "disk.csi.azure.com", "ebs.csi.aws.com",
        "file.csi.azure.com", "pd.csi.storage.gke.io", "pxd.portworx.com", "kubernetes.io/aws-ebs",
        "kubernetes.io/azure-disk", "kubernetes.io/azure-file", "kubernetes.io/cinder",
        "kubernetes.io/gce-pd", "kubernetes.io/no-provisioner", "kubernetes.io/portworx-volume",
        "kubernetes.io/rbd", "kubernetes.io/vsphere-volume",
    }
)  # fmt: skip
"""Storage drivers that rules know by name."""

ADDRESSES: Final = frozenset({"0.0.0.0", "::", "127.0.0.1", "::1"})  # noqa: S104 - nothing listens here

RECORDS: Final = frozenset(
    {"earlier", "end", "forgiven", "lines", "node", "of", "pod", "revision", "t", "tries", "v"}
)
"""Fields of our record in the annotation about failed attempts."""

RECORD_BY_NAME: Final = "lines"
"""The field of `RECORDS` whose own fields are named after pods."""

WORDS: Final = frozenset(
    {
        # phases and states
        "Active", "Available", "Bound", "Completed", "Failed", "InProgress", "Lost", "Pending", "Released",
        "Running", "Succeeded", "Terminating", "True", "False", "Unknown",
        "Proposed", "Deferred", "Infeasible", "Guaranteed", "Burstable", "BestEffort",
        # of pods
        "Always", "OnFailure", "Never", "Restart", "RestartAllContainers", "TCP", "UDP", "SCTP", "Memory",
        "HugePages", "DoNotSchedule", "ScheduleAnyway", "Honor", "Ignore", "DirectoryOrCreate", "Directory",
        "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice", "PreemptLowerPriority",
        # of selectors, taints and tolerations
        "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "metadata.name",
        "NoSchedule", "PreferNoSchedule", "NoExecute",
        # of storage
        "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod", "Filesystem", "Block",
        "Retain", "Delete", "Recycle", "Immediate", "WaitForFirstConsumer",
        # of workloads and budgets
        "RollingUpdate", "Recreate", "OnDelete", "OrderedReady", "Parallel", "NonIndexed", "Indexed",
        "Allow", "Forbid", "Replace", "IfHealthyBudget", "AlwaysAllow", "kubernetes",
        "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly",
        # what kubelets declare
        "GuaranteedQoSPodCPUResize", "RestartAllContainersOnContainerExits",
        "UserNamespacesHostNetworkSupport",
        # of migrations
        *BUILT_IN_TRAITS, *(each.value for each in Handover), "Queued", "Checking", "Marking", "Creating",
        "Placing", "Starting", "Settling", "Protecting", "Evicting", "Adopting", "Replacing", "Releasing",
        "RollingBack", "EvictionCancelled", "Cancelled", "CopyFailing", "CopyGone", "Locked", "NotReplaced",
        "PartnerFailed", "SeveralBudgets", "SourceGone", "SourceLost", "TargetLost", "MarkRefused",
        "PlacementRefused", "BudgetRefused", "FinalizerRefused", "NodeNameInTemplate", "CopyRelabelled",
        "NotAdopted", "NoRoomForReplacement",
    }
)  # fmt: skip
"""The values of fields that have one of a few values."""
