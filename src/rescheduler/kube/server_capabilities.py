"""Which kinds of namespaced objects the server has, by its aggregated discovery (since Kubernetes 1.30).

What a server must be able to do before anything is moved in it, asked once at the start.

Versions are the sign: what is needed is either part of every server of a version, or can be switched off and
then shows only where it is used (`GateMissing`, `NominationIgnored`). Reading and planning need none of it.
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
]

_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@dataclass(frozen=True, slots=True)
class NamespacedKinds:
    resources: tuple[ApiResource[Object], ...]
    """Those that can be listed, each in the version that the server prefers."""
    unknown_groups: tuple[str, ...]
    """Groups of extension API servers that don't answer now."""


async def namespaced_kinds(client: Client) -> NamespacedKinds:
    """Raises `KubeError`."""
    documents = [await client.document(path, accept=_AGGREGATED) for path in ("/api", "/apis")]
    found: dict[tuple[str, str], ApiResource[Object]] = {}
    unknown = []
    for document in documents:
        for group in document["items"]:
            name = group["metadata"].get("name", "")
            for version in group.get("versions") or ():
                if version.get("freshness") == "Stale":
                    unknown.append(name)
                for resource in _listable_resources(name, version):
                    found.setdefault((name, resource.plural), resource)
    return NamespacedKinds(tuple(found.values()), tuple(sorted(set(unknown))))


def _listable_resources(group: str, version: Object) -> Iterator[ApiResource[Object]]:
    for each in version.get("resources") or ():
        if each["scope"] == "Namespaced" and "list" in each["verbs"]:
            yield api_resource(group, version["version"], each["resource"], each["responseKind"]["kind"])


log = logging.getLogger(__name__)

OLDEST_SUPPORTED: Final = (1, 30)
"""The first in which scheduling gates and the match conditions of webhooks are there to stay."""

_RELEASE: Final = re.compile(r"v?(\d+)\.(\d+)")


class MissingCapability(errors.Permanent):
    remedy = "Upgrade the cluster; `rescheduler plan` works with older ones, too."

    def __init__(self, told: str) -> None:
        oldest = ".".join(map(str, OLDEST_SUPPORTED))
        why = (
            f"the cluster is Kubernetes {told}, and before {oldest} pods can't be held back until their "
            "node is chosen (scheduling gates), nor webhooks be asked only where they matter"
        )
        super().__init__(ApiCall("move", "pods"), why)


async def require_capabilities(client: Client) -> None:
    """Raises `MissingCapability` if the server is too old, and `KubeError` if it can't be asked."""
    try:
        told = await client.server_version()
    except (errors.Forbidden, errors.NotFound) as error:
        log.warning("the server's version is not told: %s. What is missing shows where it is needed.", error)
        return
    release = _release(told)
    if release is None:
        log.warning("the server's version is not understood: %s", told)
    elif release < OLDEST_SUPPORTED:
        raise MissingCapability(str(told.get("gitVersion") or ".".join(map(str, release))))


def _release(told: Object) -> tuple[int, int] | None:
    """Providers write `v1.30.5-gke.1` and `30+`; only the two numbers are alike everywhere."""
    for text in (told.get("gitVersion"), f"{told.get('major')}.{told.get('minor')}"):
        found = _RELEASE.match(text) if isinstance(text, str) else None
        if found is not None:
            return int(found[1]), int(found[2])
    return None
