"""The API server's resources and version.

`require_capabilities` checks once at the start whether the server is new enough to move pods. The version
suffices: every feature that we need is either part of all servers of a version, or can be disabled and is
then detected where it is used (`GateMissing`, `NominationIgnored`). Reading and planning work with older
servers.
"""

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rescheduler.kube import errors
from rescheduler.kube.api_resources import ApiCall, ApiResource, Object, api_resource
from rescheduler.kube.client import Client

__all__ = [
    "OLDEST_SUPPORTED",
    "MissingCapability",
    "NamespacedKinds",
    "namespaced_kinds",
    "require_capabilities",
    "server_release",
]

_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@dataclass(frozen=True, slots=True)
class NamespacedKinds:
    """The namespaced resources of a server."""

    resources: tuple[ApiResource[Object], ...]
    """All that can be listed, each in the version that the server prefers."""
    unknown_groups: tuple[str, ...]
    """Groups of extension API servers that don't answer."""


async def namespaced_kinds(client: Client) -> NamespacedKinds:
    """Read the aggregated discovery (since Kubernetes 1.30); raise `KubeError`."""
    documents = [await client.document(path, accept=_AGGREGATED) for path in ("/api", "/apis")]
    resources: dict[tuple[str, str], ApiResource[Object]] = {}
    unknown = []
    for document in documents:
        for group in document["items"]:
            name = group["metadata"].get("name", "")
            for version in group.get("versions") or ():
                if version.get("freshness") == "Stale":
                    unknown.append(name)
                for resource in _listable_resources(name, version):
                    resources.setdefault((name, resource.plural), resource)
    return NamespacedKinds(tuple(resources.values()), tuple(sorted(set(unknown))))


def _listable_resources(group: str, version: Object) -> Iterator[ApiResource[Object]]:
    for each in version.get("resources") or ():
        if each["scope"] == "Namespaced" and "list" in each["verbs"]:
            yield api_resource(group, version["version"], each["resource"], each["responseKind"]["kind"])


log = logging.getLogger(__name__)

OLDEST_SUPPORTED: Final = (1, 30)
"""The first version in which scheduling gates and match conditions of webhooks are stable."""

_RELEASE: Final = re.compile(r"v?(\d+)\.(\d+)")


class MissingCapability(errors.Permanent):
    """The server is too old to move pods."""

    remedy = "Upgrade the cluster. `rescheduler plan` also works with older versions."

    def __init__(self, server_version: str) -> None:
        oldest = ".".join(map(str, OLDEST_SUPPORTED))
        why = (
            f"the cluster runs Kubernetes {server_version}, but scheduling gates and match conditions of "
            f"webhooks need {oldest} or newer"
        )
        super().__init__(ApiCall("move", "pods"), why)


async def require_capabilities(client: Client) -> None:
    """Raise `MissingCapability` if the server is too old, or `KubeError` if the request fails."""
    try:
        version = await client.server_version()
    except (errors.Forbidden, errors.NotFound) as error:
        log.warning(
            "can't read the server's version: %s Missing features are detected when they are used.", error
        )
        return
    release = _release(version)
    if release is None:
        log.warning("can't parse the server's version: %s", version)
    elif release < OLDEST_SUPPORTED:
        raise MissingCapability(str(version.get("gitVersion") or ".".join(map(str, release))))


async def server_release(client: Client) -> tuple[int, int]:
    """Return the server's major and minor version; (0, 0) if it does not say. Raises no `KubeError`."""
    try:
        return _release(await client.server_version()) or (0, 0)
    except errors.KubeError as error:
        log.info("can't read the server's version: %s", error)
        return 0, 0


def _release(version: Object) -> tuple[int, int] | None:
    """Return the major and minor version; None if it is unknown. Providers add suffixes (`v1.30.5-gke.1`,
    `30+`)."""
    for text in (version.get("gitVersion"), f"{version.get('major')}.{version.get('minor')}"):
        match = _RELEASE.match(text) if isinstance(text, str) else None
        if match is not None:
            return int(match[1]), int(match[2])
    return None
