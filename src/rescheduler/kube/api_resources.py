"""Resources of the API: how each is addressed and decoded.

An `ApiResource[T]` is the first argument of every call of the client, and decides the type of the result:
`await client.get(PODS, "shop/web-1")` returns a `PodRecord`. Pods and nodes are decoded into slim records,
all other objects into dictionaries. `PODS.as_json` is the whole pod, for code that copies or changes one.

Every part of a request path that comes from data passes through `path_segment`. Names come from objects that
others write (owner references, specs, annotations) and from the command line. A name such as `..` or `a/b`
would address another object, and an empty one the whole collection.

A `Patch` is a body with its content type.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from rescheduler.kube.codecs.codec import OBJECT_CODEC, Codec, Object

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
    "NODE_POOLS",
    "PERSISTENT_VOLUMES",
    "PERSISTENT_VOLUME_CLAIMS",
    "POD_DISRUPTION_BUDGETS",
    "PRIORITY_CLASSES",
    "READ_VERBS",
    "REPLICA_SETS",
    "SECRETS",
    "STATEFUL_SETS",
    "STORAGE_CLASSES",
    "VALIDATING_WEBHOOKS",
    "ApiCall",
    "ApiResource",
    "InvalidPathSegment",
    "Object",
    "ObjectIdentity",
    "Patch",
    "api_resource",
    "apply_patch",
    "identity_of_object",
    "json_patch",
    "key_of",
    "merge_patch",
    "path_of",
    "path_segment",
    "resource_of_object",
    "split_key",
    "strategic_patch",
]

_LONGEST_NAME: Final = 253
_FORBIDDEN_CHARACTERS: Final = frozenset("/%\\")
"""The API server refuses `/` and `%` in every name; some proxies treat a backslash as a slash."""


class InvalidPathSegment(ValueError):  # noqa: N818 - says what the text is
    """Text that can't be a segment of a request path."""


def path_segment(text: str) -> str:
    """Return `text` percent-encoded; raise `InvalidPathSegment` if no object can have that name."""
    if not text:
        raise InvalidPathSegment("the name is empty")
    if len(text) > _LONGEST_NAME:
        raise InvalidPathSegment(f"the name has {len(text)} characters; at most {_LONGEST_NAME} are allowed")
    if text in {".", ".."}:
        raise InvalidPathSegment(f"{text!r} is not a valid name")
    if not text.isprintable() or _FORBIDDEN_CHARACTERS.intersection(text):
        raise InvalidPathSegment(f"{text!r} has characters that are not allowed in names")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError as error:
        raise InvalidPathSegment(f"{text!r} can't be encoded") from error


def path_of(parts: Iterable[str]) -> str:
    """Return the absolute path of these segments."""
    return "/" + "/".join(map(path_segment, parts))


T = TypeVar("T")


class ObjectIdentity(NamedTuple):
    """An object and its version."""

    key: str
    """`namespace/name`; only the name for cluster-scoped objects."""
    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class ApiResource(Generic[T]):
    group: str
    """Empty for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool
    codec: Codec[T]
    identify: Callable[[T], ObjectIdentity]
    subresource: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def label(self) -> str:
        """Return the name for messages: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def as_json(self) -> "ApiResource[Object]":
        """Return the same resource, decoded as dictionaries."""
        return replace(self, codec=OBJECT_CODEC, identify=identity_of_object)  # type: ignore[arg-type, return-value]

    @property
    def status(self) -> "ApiResource[T]":
        """Return the `status` subresource: writes change only the status."""
        return replace(self, subresource="status")

    @property
    def scale(self) -> "ApiResource[Object]":
        """Return the `autoscaling/v1 Scale` of an object."""
        return replace(self.as_json, subresource="scale")

    def sub(self, subresource: str) -> "ApiResource[Object]":
        """Return any other subresource: `binding`, `resize`, …"""
        return replace(self.as_json, subresource=subresource)

    def collection_path(self, namespace: str = "") -> str:
        """Return the path of the objects of one namespace, or of all; raise `InvalidPathSegment`."""
        return path_of(self._parts(namespace))

    def object_path(self, namespace: str, name: str) -> str:
        """Return the path of an object or its subresource; raise `InvalidPathSegment`."""
        below = (self.subresource,) if self.subresource else ()
        return path_of((*self._parts(namespace), name, *below))

    def _parts(self, namespace: str) -> tuple[str, ...]:
        api = ("apis", self.group, self.version) if self.group else ("api", self.version)
        return (*api, "namespaces", namespace, self.plural) if namespace else (*api, self.plural)


def key_of(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def split_key(key: str) -> tuple[str, str]:
    """Split `namespace/name`; the namespace is empty for cluster-scoped objects."""
    namespace, _, name = key.rpartition("/")
    return namespace, name


def identity_of_object(item: Object) -> ObjectIdentity:
    metadata = item["metadata"]
    key = key_of(metadata.get("namespace", ""), metadata["name"])
    return ObjectIdentity(key, metadata.get("uid", ""), metadata.get("resourceVersion", ""))


def api_resource(
    group: str, version: str, plural: str, kind: str, *, namespaced: bool = True
) -> ApiResource[Object]:
    """Return a custom resource, or any other that has no constant here."""
    return ApiResource(group, version, plural, kind, namespaced, OBJECT_CODEC, identity_of_object)


def resource_of_object(item: Object) -> ApiResource[Object]:
    """Return the resource of an object of a built-in kind.

    Built-in kinds have regular plurals (as in `meta.UnsafeGuessKindToResource` of apimachinery).
    """
    kind = item["kind"].lower()
    plural = kind + "es" if kind.endswith("s") else kind[:-1] + "ies" if kind.endswith("y") else kind + "s"
    return _builtin(item["apiVersion"], plural, item["kind"], namespaced="namespace" in item["metadata"])


def _builtin(api_version: str, plural: str, kind: str, *, namespaced: bool = True) -> ApiResource[Object]:
    group, _, version = api_version.rpartition("/")
    return api_resource(group, version, plural, kind, namespaced=namespaced)


NAMESPACES = _builtin("v1", "namespaces", "Namespace", namespaced=False)
EVENTS = _builtin("v1", "events", "Event")
CONFIG_MAPS = _builtin("v1", "configmaps", "ConfigMap")
SECRETS = _builtin("v1", "secrets", "Secret")
PERSISTENT_VOLUMES = _builtin("v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = _builtin("v1", "persistentvolumeclaims", "PersistentVolumeClaim")
DEPLOYMENTS = _builtin("apps/v1", "deployments", "Deployment")
REPLICA_SETS = _builtin("apps/v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = _builtin("apps/v1", "statefulsets", "StatefulSet")
DAEMON_SETS = _builtin("apps/v1", "daemonsets", "DaemonSet")
JOBS = _builtin("batch/v1", "jobs", "Job")
CRON_JOBS = _builtin("batch/v1", "cronjobs", "CronJob")
POD_DISRUPTION_BUDGETS = _builtin("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget")
LEASES = _builtin("coordination.k8s.io/v1", "leases", "Lease")
PRIORITY_CLASSES = _builtin("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", namespaced=False)
STORAGE_CLASSES = _builtin("storage.k8s.io/v1", "storageclasses", "StorageClass", namespaced=False)
CLUSTER_ROLE_BINDINGS = _builtin(
    "rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
MUTATING_WEBHOOKS = _builtin(
    "admissionregistration.k8s.io/v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOKS = _builtin(
    "admissionregistration.k8s.io/v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
CUSTOM_RESOURCE_DEFINITIONS = _builtin(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
NODE_POOLS = api_resource("karpenter.sh", "v1", "nodepools", "NodePool", namespaced=False)
"""Karpenter's; most clusters don't have them."""

READ_VERBS = frozenset({"get", "list", "watch"})


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A request in Kubernetes terms, for errors, metrics and logs."""

    verb: str
    """The verb in RBAC (get, list, watch, create, update, patch, delete), or `evict`."""
    resource: str
    """The name in messages: `pods`, `deployments.apps`."""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def is_write(self) -> bool:
        return self.verb not in READ_VERBS

    @property
    def subject(self) -> str:
        """Return the object or collection of the call."""
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        if self.name:
            return f"{resource} {self.namespace}/{self.name}" if self.namespace else f"{resource} {self.name}"
        return f"{resource} in namespace {self.namespace}" if self.namespace else resource

    def __str__(self) -> str:
        return f"{self.verb} {self.subject}"


@dataclass(frozen=True, slots=True)
class Patch:
    content_type: str
    body: bytes
    field_manager: str = ""
    """The owner of the fields; empty for the client's field manager."""
    force: bool = False
    """Take fields over from other owners (server-side apply only)."""


def json_patch(operations: Sequence[Mapping[str, Any]]) -> Patch:
    """Build a patch of RFC 6902: a list of operations, all or none. The server answers a failed `test` with
    `Invalid`."""
    return Patch("application/json-patch+json", msgspec.json.encode(operations))


def merge_patch(change: Mapping[str, Any]) -> Patch:
    """Build a patch of RFC 7386: it sets the given fields, removes fields that are null, and replaces lists.
    It also works for custom resources.

    If `metadata.resourceVersion` is given and differs, the server answers `Conflict`; if `metadata.uid`
    differs, `Invalid`.
    """
    return Patch("application/merge-patch+json", msgspec.json.encode(change))


def strategic_patch(change: Mapping[str, Any]) -> Patch:
    """Build a strategic merge patch, which merges lists of built-in types by key. It does not work for custom
    resources."""
    return Patch("application/strategic-merge-patch+json", msgspec.json.encode(change))


def apply_patch(wanted: Mapping[str, Any], *, field_manager: str = "", force: bool = False) -> Patch:
    """Return a server-side apply that creates the object, or sets exactly the given fields and owns them.

    If another manager owns a field, the server answers `Conflict` unless `force`. `wanted` needs
    `apiVersion`, `kind` and `metadata.name`.
    """
    # JSON is YAML, and every server accepts it with this content type.
    return Patch("application/apply-patch+yaml", msgspec.json.encode(wanted), field_manager, force)
