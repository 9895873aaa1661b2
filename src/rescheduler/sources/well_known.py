"""Words of Kubernetes, of its relatives and of our own: they say nothing about whose cluster it is."""

from typing import Final

__all__ = ["ADDRESSES", "CONDITIONS", "DOMAINS", "DRIVERS", "GROUPS", "KEYS", "KINDS", "MEANINGFUL", "NAMES"]
__all__ += ["NAMESPACES", "RECORDS", "RECORD_BY_NAME", "RESOURCES", "RESOURCE_PREFIXES", "VALUES", "WORDS"]

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
"""Of kinds."""

_OURS: Final = "scheduler.alpha.kubernetes.io"
MEANINGFUL: Final = {
    f"{_OURS}/maintenance": {"true", "false"},
    f"{_OURS}/rescheduling": {"disabled", "enabled"},
    f"{_OURS}/migration-status": {"pending", "in-progress", "completed"},
    f"{_OURS}/migration-reason": {
        "CostOptimization", "LoadBalancing", "Manual", "NodeMaintenance", "ResourceOptimization",
        "TopologySpread",
    },
    "rescheduler.dev/cordoned-by": {"CostOptimization", "NodeMaintenance"},
    "rescheduler.dev/handover": {"Auto", "Adopt", "Copy", "Evict"},
    "rescheduler.dev/includes-system": {"true", "false"},
    "app.kubernetes.io/name": {"rescheduler"},
    "cluster-autoscaler.kubernetes.io/safe-to-evict": {"true", "false"},
    "karpenter.sh/do-not-disrupt": {"true", "false"},
    "karpenter.sh/do-not-evict": {"true", "false"},
    "karpenter.sh/capacity-type": {"spot", "on-demand", "reserved"},
    "kubernetes.io/arch": {"amd64", "arm64", "arm", "ppc64le", "s390x", "386"},
    "kubernetes.io/os": {"linux", "windows"},
    "beta.kubernetes.io/arch": {"amd64", "arm64", "arm", "ppc64le", "s390x", "386"},
    "beta.kubernetes.io/os": {"linux", "windows"},
    "pv.kubernetes.io/bind-completed": {"yes"},
    "storageclass.kubernetes.io/is-default-class": {"true", "false"},
}  # fmt: skip
"""Keys of labels and annotations, with the values of each that mean something."""

KEYS: Final = frozenset(
    {
        *MEANINGFUL,
        f"{_OURS}/migration-id",
        f"{_OURS}/migrated-from",
        f"{_OURS}/migration-time",
        f"{_OURS}/original-pod",
        f"{_OURS}/original-pod-name",
        "rescheduler.dev/avoids",
        "rescheduler.dev/continues",
        "rescheduler.dev/failed-attempts",
        "rescheduler.dev/goes-on-to",
        "rescheduler.dev/migration",
        "rescheduler.dev/unfinished",
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
        "node.kubernetes.io/unschedulable",
        # annotations
        "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes",
        "controller.kubernetes.io/pod-deletion-cost", "kubernetes.io/config.mirror",
        "storage.alpha.kubernetes.io/migrated-plugins", "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/selected-node",
        # finalizers
        "batch.kubernetes.io/job-tracking", "external-attacher/driver", "foregroundDeletion",
        "kubernetes", "kubernetes.io/pv-protection", "kubernetes.io/pvc-protection", "orphan",
    }
)  # fmt: skip
"""Of labels, taints, annotations and finalizers."""

DOMAINS: Final = frozenset(key.rpartition("/")[0] for key in KEYS if "/" in key)
"""Of these also other keys than we know are as good as public; others may be anybody's, under k8s.io too."""

VALUES: Final = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "controller.kubernetes.io/pod-deletion-cost",
        "pod-template-generation",
        f"{_OURS}/migration-time",
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
        "BudgetAllows", "CopyReady", "HandedOver", "RolledBack", "Steered", "rescheduler.dev/Empty",
    }
)  # fmt: skip
"""Types of conditions, and reasons."""

RESOURCES: Final = frozenset({"cpu", "memory", "pods", "ephemeral-storage", "storage"})
RESOURCE_PREFIXES: Final = ("hugepages-", "attachable-volumes-")
"""What follows tells of a size, or of a driver."""

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
"""Fields of the record that we keep in the annotation about failed attempts."""

RECORD_BY_NAME: Final = "lines"
"""The one of them that has fields by the names of pods."""

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
        "CostOptimization", "LoadBalancing", "Manual", "NodeMaintenance", "ResourceOptimization",
        "TopologySpread", "Auto", "Adopt", "Copy", "Evict", "Queued", "Checking", "Marking", "Creating",
        "Placing", "Starting", "Settling", "Protecting", "Evicting", "Adopting", "Replacing", "Releasing",
        "RollingBack", "CalledOff", "Cancelled", "CopyFailing", "CopyGone", "Locked", "NotReplaced",
        "PartnerFailed", "SeveralBudgets", "SourceGone", "SourceLost", "TargetLost", "MarkRefused",
        "PlacementRefused", "BudgetRefused", "FinalizerRefused", "NodeNameInTemplate", "CopyRelabelled",
        "NotAdopted", "NoRoomForReplacement",
    }
)  # fmt: skip
"""Where a field has one of a few words."""
