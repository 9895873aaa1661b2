"""The kinds that the simulated API server serves: built-in ones, and custom ones from definitions."""

from collections.abc import Iterable, Iterator

import msgspec

__all__ = ["BUILT_IN", "KindRegistry", "ResourceKind"]


class ResourceKind(msgspec.Struct, frozen=True, kw_only=True):
    group: str
    """Empty for the core group."""
    version: str
    name: str
    """The value of an object's `kind`."""
    plural: str
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    """With `status`, plain writes don't change the status, and status writes change nothing else."""
    has_generation: bool = False
    """Changes of anything but metadata and status raise `metadata.generation`."""
    verbs: tuple[str, ...] = (
        "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
    )  # fmt: skip
    custom: bool = False
    served: bool = True
    must_name_version: bool = False
    """Whether an update must give a resourceVersion; other kinds use the newest if it is absent."""
    created_by_put: bool = False
    """Whether a PUT creates the object if it does not exist."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def list_name(self) -> str:
        return f"{self.name}List"

    @property
    def stored_as(self) -> tuple[str, str]:
        """Return the key of the stored objects, which both groups of events share."""
        return ("", "events") if self.plural == "events" and not self.custom else (self.group, self.plural)

    @property
    def resource(self) -> str:
        """Return the name in messages: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _kind(api_version: str, name: str, plural: str, shorts: str = "", **rest: object) -> ResourceKind:
    group, _, version = api_version.rpartition("/")
    return ResourceKind(
        group=group,
        version=version,
        name=name,
        plural=plural,
        singular=name.lower(),
        short_names=tuple(shorts.split()),
        **rest,  # type: ignore[arg-type]
    )


_ALL = ("all",)
_STATUS = ("status",)
_SCALE = ("scale", "status")

BUILT_IN: tuple[ResourceKind, ...] = (
    _kind("v1", "Namespace", "namespaces", "ns", namespaced=False, subresources=("finalize", "status"),
          verbs=("create", "delete", "get", "list", "patch", "update", "watch")),
    _kind("v1", "Node", "nodes", "no", namespaced=False, subresources=_STATUS),
    _kind("v1", "Pod", "pods", "po", categories=_ALL, has_generation=True,
          subresources=("binding", "eviction", "ephemeralcontainers", "log", "resize", "status")),
    _kind("v1", "Service", "services", "svc", categories=_ALL, subresources=_STATUS, created_by_put=True),
    _kind("v1", "ConfigMap", "configmaps", "cm"),
    _kind("v1", "Secret", "secrets"),
    _kind("v1", "Event", "events", "ev", created_by_put=True),
    _kind("v1", "ServiceAccount", "serviceaccounts", "sa"),
    _kind("v1", "PersistentVolume", "persistentvolumes", "pv", namespaced=False, subresources=_STATUS),
    _kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", subresources=_STATUS),
    _kind("v1", "ReplicationController", "replicationcontrollers", "rc", categories=_ALL,
          has_generation=True, subresources=_SCALE),
    _kind("v1", "ResourceQuota", "resourcequotas", "quota", subresources=_STATUS),
    _kind("v1", "LimitRange", "limitranges", "limits", created_by_put=True),
    _kind("apps/v1", "Deployment", "deployments", "deploy",
          categories=_ALL, has_generation=True, subresources=_SCALE),
    _kind("apps/v1", "ReplicaSet", "replicasets", "rs",
          categories=_ALL, has_generation=True, subresources=_SCALE),
    _kind("apps/v1", "StatefulSet", "statefulsets", "sts",
          categories=_ALL, has_generation=True, subresources=_SCALE),
    _kind("apps/v1", "DaemonSet", "daemonsets", "ds",
          categories=_ALL, has_generation=True, subresources=_STATUS),
    _kind("apps/v1", "ControllerRevision", "controllerrevisions"),
    _kind("batch/v1", "Job", "jobs",
          categories=_ALL, has_generation=True, subresources=_STATUS),
    _kind("batch/v1", "CronJob", "cronjobs", "cj",
          categories=_ALL, has_generation=True, subresources=_STATUS),
    _kind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa",
          categories=_ALL, has_generation=True, subresources=_STATUS),
    _kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", "pdb",
          has_generation=True, subresources=_STATUS, must_name_version=True),
    _kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "netpol", has_generation=True),
    _kind("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", has_generation=True),
    _kind("events.k8s.io/v1", "Event", "events", "ev", created_by_put=True),
    _kind("coordination.k8s.io/v1", "Lease", "leases", must_name_version=True, created_by_put=True),
    _kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", "pc",
          namespaced=False, has_generation=True),
    _kind("storage.k8s.io/v1", "StorageClass", "storageclasses", "sc", namespaced=False),
    _kind("storage.k8s.io/v1", "CSINode", "csinodes", namespaced=False, must_name_version=True),
    _kind("storage.k8s.io/v1", "CSIDriver", "csidrivers",
          namespaced=False, has_generation=True, must_name_version=True),
    _kind("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities", must_name_version=True),
    _kind("storage.k8s.io/v1", "VolumeAttachment", "volumeattachments",
          namespaced=False, has_generation=True, subresources=_STATUS, must_name_version=True),
    _kind("rbac.authorization.k8s.io/v1", "Role", "roles", created_by_put=True),
    _kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", created_by_put=True),
    _kind("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles",
          namespaced=False, created_by_put=True),
    _kind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings",
          namespaced=False, created_by_put=True),
    _kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations",
          namespaced=False, has_generation=True, categories=("api-extensions",), must_name_version=True),
    _kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration",
          "validatingwebhookconfigurations", namespaced=False, has_generation=True,
          categories=("api-extensions",), must_name_version=True),
    _kind("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy",
          "validatingadmissionpolicies", namespaced=False, has_generation=True,
          categories=("api-extensions",), subresources=_STATUS, must_name_version=True),
    _kind("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding",
          "validatingadmissionpolicybindings", namespaced=False, has_generation=True,
          categories=("api-extensions",), must_name_version=True),
    _kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", "crd crds",
          namespaced=False, has_generation=True, categories=("api-extensions",), subresources=_STATUS,
          must_name_version=True),
    _kind("metrics.k8s.io/v1beta1", "NodeMetrics", "nodes", namespaced=False, verbs=("get", "list")),
    _kind("metrics.k8s.io/v1beta1", "PodMetrics", "pods", verbs=("get", "list")),
)  # fmt: skip


class KindRegistry:
    """The kinds served now, found by their names in URLs."""

    def __init__(self, kinds: Iterable[ResourceKind] = BUILT_IN) -> None:
        self._by_plural = {(kind.group, kind.version, kind.plural): kind for kind in kinds}

    def __iter__(self) -> Iterator[ResourceKind]:
        return iter(self._by_plural.values())

    def find(self, group: str, version: str, plural: str) -> ResourceKind | None:
        return self._by_plural.get((group, version, plural))

    def named(self, api_version: str, name: str) -> ResourceKind | None:
        """Return the kind with this `apiVersion` and `kind`."""
        return next((k for k in self if k.name == name and k.api_version == api_version), None)

    def add(self, kind: ResourceKind) -> None:
        self._by_plural[kind.group, kind.version, kind.plural] = kind

    def remove(self, kind: ResourceKind) -> None:
        self._by_plural.pop((kind.group, kind.version, kind.plural), None)
