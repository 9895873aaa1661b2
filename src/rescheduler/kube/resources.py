"""The kinds of objects we read and write, and how each is addressed and decoded.

A `Resource[T]` is what every call of the client begins with, and it decides the type of what comes back:
`await client.get(PODS, "shop/web-1")` is a `PodRecord`. Pods and nodes are decoded into slim records;
all else into plain dictionaries. `PODS.as_json` is the whole pod, for when one is to be copied or changed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

from rescheduler.kube.paths import path_of
from rescheduler.kube.wire.codec import Codec
from rescheduler.kube.wire.generic import OBJECTS
from rescheduler.kube.wire.nodes import NODES as NODE_CODEC
from rescheduler.kube.wire.pods import PODS as POD_CODEC
from rescheduler.model.nodes import NodeRecord
from rescheduler.model.pods import PodRecord

__all__ = [
    "CLUSTER_ROLE_BINDINGS",
    "CONFIG_MAPS",
    "CRON_JOBS",
    "CUSTOM_RESOURCE_DEFINITIONS",
    "DAEMON_SETS",
    "DEPLOYMENTS",
    "EVENTS",
    "JOBS",
    "LEASES",
    "MUTATING_WEBHOOKS",
    "NAMESPACES",
    "NODES",
    "PERSISTENT_VOLUMES",
    "PERSISTENT_VOLUME_CLAIMS",
    "PODS",
    "POD_DISRUPTION_BUDGETS",
    "PRIORITY_CLASSES",
    "REPLICA_SETS",
    "SECRETS",
    "SERVICES",
    "STATEFUL_SETS",
    "STORAGE_CLASSES",
    "VALIDATING_WEBHOOKS",
    "Identity",
    "Object",
    "Resource",
    "custom",
    "identity_of_object",
    "key_of",
    "resource_of_object",
    "split_key",
]

T = TypeVar("T")

Object = dict[str, Any]
"""A Kubernetes object as JSON has it."""


class Identity(NamedTuple):
    """Which object this is, and which state of it."""

    key: str
    """`namespace/name`, or only the name of a cluster-scoped object."""
    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    group: str
    """Empty for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool
    codec: Codec[T]
    identify: Callable[[T], Identity]
    subresource: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def label(self) -> str:
        """As messages name it: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def as_json(self) -> "Resource[Object]":
        """The same objects, whole."""
        return self._decoded_by(OBJECTS, identity_of_object)

    @property
    def status(self) -> "Resource[T]":
        """For writes that change the status and nothing else."""
        return replace(self, subresource="status")

    @property
    def scale(self) -> "Resource[Object]":
        """The `autoscaling/v1 Scale` of an object."""
        return replace(self.as_json, subresource="scale")

    def sub(self, subresource: str) -> "Resource[Object]":
        """Any other subresource: `binding`, `resize`, …"""
        return replace(self.as_json, subresource=subresource)

    def collection_path(self, namespace: str = "") -> str:
        """Where on the server the objects are, of all namespaces or of one; raises `InvalidSegment`."""
        return path_of(self._parts(namespace))

    def object_path(self, namespace: str, name: str) -> str:
        """Where on the server the object of that name is, or its subresource; raises `InvalidSegment`."""
        below = (self.subresource,) if self.subresource else ()
        return path_of((*self._parts(namespace), name, *below))

    def _parts(self, namespace: str) -> tuple[str, ...]:
        api = ("apis", self.group, self.version) if self.group else ("api", self.version)
        return (*api, "namespaces", namespace, self.plural) if namespace else (*api, self.plural)

    def _decoded_by(self, codec: Codec[Any], identify: Callable[[Any], Identity]) -> "Resource[Any]":
        return Resource(
            self.group,
            self.version,
            self.plural,
            self.kind,
            self.namespaced,
            codec,
            identify,
            self.subresource,
        )


def key_of(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def split_key(key: str) -> tuple[str, str]:
    """`namespace/name` → both; the namespace is empty for cluster-scoped objects."""
    namespace, _, name = key.rpartition("/")
    return namespace, name


def identity_of_object(item: Object) -> Identity:
    metadata = item["metadata"]
    key = key_of(metadata.get("namespace", ""), metadata["name"])
    return Identity(key, metadata.get("uid", ""), metadata.get("resourceVersion", ""))


def _identity_of_record(record: PodRecord | NodeRecord) -> Identity:
    return Identity(record.key, record.uid, record.resource_version)


def custom(group: str, version: str, plural: str, kind: str, *, namespaced: bool = True) -> Resource[Object]:
    """A custom resource, or any other that has no constant here."""
    return Resource(group, version, plural, kind, namespaced, OBJECTS, identity_of_object)


def resource_of_object(item: Object) -> Resource[Object]:
    """Return where an object of a built-in kind, as in a manifest, is served.

    Built-in kinds have regular plurals (as in `meta.UnsafeGuessKindToResource` of apimachinery).
    """
    kind = item["kind"].lower()
    plural = kind + "es" if kind.endswith("s") else kind[:-1] + "ies" if kind.endswith("y") else kind + "s"
    return _plain(item["apiVersion"], plural, item["kind"], namespaced="namespace" in item["metadata"])


def _plain(api_version: str, plural: str, kind: str, *, namespaced: bool = True) -> Resource[Object]:
    group, _, version = api_version.rpartition("/")
    return custom(group, version, plural, kind, namespaced=namespaced)


PODS: Resource[PodRecord] = Resource("", "v1", "pods", "Pod", True, POD_CODEC, _identity_of_record)
NODES: Resource[NodeRecord] = Resource("", "v1", "nodes", "Node", False, NODE_CODEC, _identity_of_record)

NAMESPACES = _plain("v1", "namespaces", "Namespace", namespaced=False)
EVENTS = _plain("v1", "events", "Event")
CONFIG_MAPS = _plain("v1", "configmaps", "ConfigMap")
SECRETS = _plain("v1", "secrets", "Secret")
SERVICES = _plain("v1", "services", "Service")
PERSISTENT_VOLUMES = _plain("v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = _plain("v1", "persistentvolumeclaims", "PersistentVolumeClaim")
DEPLOYMENTS = _plain("apps/v1", "deployments", "Deployment")
REPLICA_SETS = _plain("apps/v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = _plain("apps/v1", "statefulsets", "StatefulSet")
DAEMON_SETS = _plain("apps/v1", "daemonsets", "DaemonSet")
JOBS = _plain("batch/v1", "jobs", "Job")
CRON_JOBS = _plain("batch/v1", "cronjobs", "CronJob")
POD_DISRUPTION_BUDGETS = _plain("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget")
LEASES = _plain("coordination.k8s.io/v1", "leases", "Lease")
PRIORITY_CLASSES = _plain("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", namespaced=False)
STORAGE_CLASSES = _plain("storage.k8s.io/v1", "storageclasses", "StorageClass", namespaced=False)
CLUSTER_ROLE_BINDINGS = _plain(
    "rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
MUTATING_WEBHOOKS = _plain(
    "admissionregistration.k8s.io/v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOKS = _plain(
    "admissionregistration.k8s.io/v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
CUSTOM_RESOURCE_DEFINITIONS = _plain(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
