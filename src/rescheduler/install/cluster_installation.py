"""Find the namespace in which rescheduler is installed, and install the PodMigration CRD.

The daemon's ClusterRoleBinding identifies the namespace: it has the install id as a label, is named after the
namespace and binds the daemon's account there. Only an administrator can create one. Objects in a namespace
are no proof: a tenant with edit access can create a Lease, a ConfigMap and a Deployment with any name and
label. In the namespace that is found, the Deployment, the ConfigMap and the Lease must have the install id.

`was_created_with_id` and `other_contents` say whether `uninstall` may remove that namespace.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, NamedTuple

from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME, podmigration_crd
from rescheduler.api.well_known_names import INSTALL_ID, cluster_scoped_name, install_id
from rescheduler.install.install_options import CONFIGURATION_FILE, DAEMON
from rescheduler.kube import errors
from rescheduler.kube.api_resources import (
    CLUSTER_ROLE_BINDINGS,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    LEASES,
    ApiResource,
    Object,
    apply_patch,
)
from rescheduler.kube.client import Client
from rescheduler.kube.server_capabilities import namespaced_kinds

__all__ = [
    "AmbiguousInstallation",
    "InstalledConfiguration",
    "find_installation",
    "find_installation_to_remove",
    "install_definition",
    "installed_namespaces",
    "other_contents",
    "read_installed_configuration",
    "was_created_with_id",
]

_NAMESPACE_HINT: Final = (
    "Specify the namespace with leaderElection.resourceNamespace in the --config file; `status`, `pause`, "
    "`resume`, `uninstall` and `run` also have the option --namespace."
)


class AmbiguousInstallation(Exception):  # noqa: N818 - as the other exceptions here
    """The installation is ambiguous or incomplete; the message says what to do."""


async def find_installation(client: Client, lease_name: str) -> str | None:
    """Return the namespace of the only installation; None if there is none.

    Raises `AmbiguousInstallation` and `KubeError`.
    """
    namespaces = await _candidates(client)
    found = [each for each in namespaces if await _is_complete(client, each, lease_name)]
    if not found and namespaces:
        raise AmbiguousInstallation(
            f"ClusterRoleBinding {cluster_scoped_name(DAEMON, namespaces[0])} says that rescheduler is "
            f"installed in namespace {namespaces[0]}, but the namespace has no Deployment and ConfigMap "
            f"{DAEMON} with the label {INSTALL_ID}={namespaces[0]}, or its Lease has another value. Install "
            "rescheduler again, or remove the rest with "
            f"`rescheduler uninstall --namespace {namespaces[0]}`. {_NAMESPACE_HINT}"
        )
    return _only(found)


class InstalledConfiguration(NamedTuple):
    """The configuration file of the installed daemon, as it is in the cluster."""

    namespace: str
    content: bytes

    @property
    def source(self) -> str:
        return f"ConfigMap {self.namespace}/{DAEMON}"


async def read_installed_configuration(client: Client, lease_name: str) -> InstalledConfiguration | None:
    """Return the configuration of the only installation; None if there is none.

    Raises `AmbiguousInstallation` and `KubeError`.
    """
    namespace = await find_installation(client, lease_name)
    if namespace is None:
        return None
    item = await client.get(CONFIG_MAPS, f"{namespace}/{DAEMON}")
    content = (item.get("data") or {}).get(CONFIGURATION_FILE, "")
    return InstalledConfiguration(namespace, content.encode())


async def find_installation_to_remove(client: Client) -> str | None:
    """Return the namespace of the only installation, even if parts are missing; None if there is none.

    Raises `AmbiguousInstallation` and `KubeError`.
    """
    return _only(await _candidates(client))


async def _candidates(client: Client) -> list[str]:
    try:
        return await installed_namespaces(client)
    except errors.Forbidden as error:
        raise AmbiguousInstallation(
            f"can't find out where rescheduler is installed: {error} {_NAMESPACE_HINT}"
        ) from error


def _only(namespaces: list[str]) -> str | None:
    if len(namespaces) > 1:
        names = ", ".join(namespaces)
        raise AmbiguousInstallation(
            f"rescheduler is installed in several namespaces: {names}. {_NAMESPACE_HINT}"
        )
    return namespaces[0] if namespaces else None


async def installed_namespaces(client: Client) -> list[str]:
    """Return the namespaces that administrators have installed rescheduler in. Raises `KubeError`."""
    try:
        bindings = (await client.list(CLUSTER_ROLE_BINDINGS, labels=INSTALL_ID)).items
    except errors.NotFound:  # a server without RBAC
        return []
    return sorted(filter(None, (_namespace_of(each) for each in bindings)))


def _namespace_of(binding: Object) -> str | None:
    namespace: str = binding["metadata"]["labels"][INSTALL_ID]
    subjects = binding.get("subjects") or ()
    is_named_so = binding["metadata"]["name"] == cluster_scoped_name(DAEMON, namespace)
    is_bound = any(
        (each.get("kind"), each.get("namespace"), each.get("name")) == ("ServiceAccount", namespace, DAEMON)
        for each in subjects
    )
    return namespace if is_named_so and is_bound else None


async def _is_complete(client: Client, namespace: str, lease_name: str) -> bool:
    """Return whether the Deployment and the ConfigMap are there and ours, and the Lease is not another's."""
    for resource in (DEPLOYMENTS, CONFIG_MAPS):
        if await _id_of(client, resource, f"{namespace}/{DAEMON}") != install_id(namespace):
            return False
    # The daemon makes the Lease when it first runs, and labels it with each renewal.
    return await _id_of(client, LEASES, f"{namespace}/{lease_name}") in {install_id(namespace), "", None}


async def _id_of(client: Client, resource: ApiResource[Object], key: str) -> str | None:
    """Return the install id of the object; empty if it has none, None if it isn't there."""
    item = await client.get_or_none(resource, key)
    return None if item is None else str((item["metadata"].get("labels") or {}).get(INSTALL_ID, ""))


_DEFAULT_NAMESPACE_OBJECTS: Final = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
_DERIVED_KINDS: Final = {"Event", "Endpoints", "EndpointSlice", "PodMetrics"}
"""Kinds that controllers derive from other objects."""

_CREATION_TOLERANCE_S: Final = 1.0
"""The server reads the clock twice while it creates an object, and writes whole seconds."""


def was_created_with_id(namespace: Object) -> bool:
    """Return whether the namespace was created with the install id.

    `kubectl apply` on a namespace that exists adds the label, too. The server records when a field was set:
    if that was later than the creation, or is unknown, the namespace was created without rescheduler.
    """
    metadata = namespace["metadata"]
    created = datetime.fromisoformat(metadata["creationTimestamp"])
    for entry in metadata.get("managedFields") or ():
        labels = entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:labels", {})
        if f"f:{INSTALL_ID}" in labels and "time" in entry:
            set_at = datetime.fromisoformat(entry["time"])
            return abs((set_at - created).total_seconds()) <= _CREATION_TOLERANCE_S
    return False


async def other_contents(
    client: Client, namespace: str, is_own: Callable[[ApiResource[Any], Object], bool]
) -> list[str]:
    """Return everything in the namespace that is not ours, as text; also what can't be listed.

    Raises `KubeError` if the server does not say which kinds it has.
    """
    kinds = await namespaced_kinds(client)
    found = [f"objects of API group {group}, which does not respond" for group in kinds.unknown_groups]
    for resource in kinds.resources:
        if resource.kind in _DERIVED_KINDS:
            continue
        try:
            items = (await client.list(resource, namespace=namespace)).items
        except errors.KubeError as error:
            found.append(f"{resource.label}, which can't be listed ({error})")
            continue
        found += [
            f"{resource.kind} {item['metadata']['name']}"
            for item in items
            if (resource.kind, item["metadata"]["name"]) not in _DEFAULT_NAMESPACE_OBJECTS
            and not is_own(resource, item)
        ]
    return found


_ESTABLISH_TIMEOUT_S: Final = 30.0


async def install_definition(client: Client) -> None:
    """Apply the PodMigration CRD, which also updates an older one, and wait until it is established.

    Raises `KubeError`, and TimeoutError if the server does not establish it in time.
    """
    made = await client.patch(
        CUSTOM_RESOURCE_DEFINITIONS, PODMIGRATION_CRD_NAME, apply_patch(podmigration_crd(), force=True)
    )
    if _is_established(made):
        return
    version = made["metadata"]["resourceVersion"]
    watch = client.watch(
        CUSTOM_RESOURCE_DEFINITIONS, fields=f"metadata.name={PODMIGRATION_CRD_NAME}", version=version
    )
    async with asyncio.timeout(_ESTABLISH_TIMEOUT_S), watch as events:
        async for event in events:
            if event.object is not None and _is_established(event.object):
                return
    raise TimeoutError


def _is_established(item: Object) -> bool:
    conditions = (item.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
