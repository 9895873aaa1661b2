"""What an installation consists of, by kind and name, in the order in which it is removed. Pure.

It follows from the same data as the manifests. An object is removed only if it has a kind and a name from
this list and carries the install id; what has one of the two and not the other is left alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rescheduler.install.names import DAEMON, identified, metadata
from rescheduler.install.objects import installed
from rescheduler.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    DEPLOYMENTS,
    Object,
    Resource,
    key_of,
    resource_of_object,
)
from rescheduler.model.installation import INSTALL_ID, install_id

__all__ = ["InstalledObject", "carries_id", "inventory"]

_STATE: Final = "rescheduler-state"


@dataclass(frozen=True, slots=True)
class InstalledObject:
    """One object of an installation, whether it is there or not."""

    resource: Resource[Any]
    key: str

    @property
    def name(self) -> str:
        return f"{self.resource.kind} {self.key}"


def inventory(namespace: str, lease_name: str = DAEMON) -> list[InstalledObject]:
    """Return all objects that the installation in this namespace can have, whatever was chosen for it.

    Without the namespace and the definition of PodMigration, which are removed under conditions of their own.
    The programs come first: nothing that they need goes before they have ended. Their webhook comes next: API
    servers call it in vain until it goes. Last is the binding by which the installation is found: while it
    is there, `uninstall` can be repeated.
    """
    items = [item for item in installed(namespace=namespace) if item["kind"] != "CustomResourceDefinition"]
    items += [identified(item, namespace) for item in _made_at_run_time(namespace, lease_name)]
    items.sort(key=_rank)
    return [InstalledObject(resource_of_object(item), _key(item)) for item in items]


def carries_id(item: Mapping[str, Any], namespace: str) -> bool:
    return (item["metadata"].get("labels") or {}).get(INSTALL_ID) == install_id(namespace)


def _made_at_run_time(namespace: str, lease_name: str) -> list[Object]:
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(_STATE, namespace)},
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata(lease_name, namespace),
        },
    ]


def _key(item: Object) -> str:
    return key_of(item["metadata"].get("namespace", ""), item["metadata"]["name"])


def _rank(item: Object) -> int:
    if item["kind"] == DEPLOYMENTS.kind:
        return 0
    if item["kind"].endswith("WebhookConfiguration"):
        return 1
    is_daemons = item["metadata"]["labels"].get("app.kubernetes.io/component") == "daemon"
    return 3 if item["kind"] == CLUSTER_ROLE_BINDINGS.kind and is_daemons else 2
