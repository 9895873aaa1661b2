"""Discovery: the server's version, its API groups and their resources, in the old and the aggregated form."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

from kubesim.apiserver.api_messages import JSON, Object
from kubesim.apiserver.kind_registry import KindRegistry, ResourceKind

__all__ = ["KUBERNETES_VERSION", "discovery_response", "group_versions"]

KUBERNETES_VERSION = (1, 37)
"""The version of the API server that this one simulates."""

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_READ_AND_WRITE = ("get", "patch", "update")


class _Subresource(NamedTuple):
    verbs: tuple[str, ...] = _READ_AND_WRITE
    group: str = ""
    version: str = ""
    kind: str = ""
    """The kind that the subresource takes and returns; empty for that of the resource itself."""


_SUBRESOURCES: Mapping[str, _Subresource] = {
    "binding": _Subresource(("create",), kind="Binding"),
    "ephemeralcontainers": _Subresource(),
    "eviction": _Subresource(("create",), "policy", "v1", "Eviction"),
    "finalize": _Subresource(("update",)),
    "log": _Subresource(("get",)),
    "resize": _Subresource(),
    "scale": _Subresource(_READ_AND_WRITE, "autoscaling", "v1", "Scale"),
    "status": _Subresource(),
    "token": _Subresource(("create",), "authentication.k8s.io", "v1", "TokenRequest"),
}


def discovery_response(path: str, kinds: KindRegistry, accept: str) -> tuple[str, Object] | None:
    """Return content type and body, or None if the path is no discovery document."""
    match path.strip("/").split("/"):
        case ["version"]:
            return JSON, _version()
        case ["api" | "apis" as root] if AGGREGATED in accept.replace(" ", ""):
            return AGGREGATED, _aggregated(kinds, core=root == "api")
        case ["api"]:
            return JSON, {"kind": "APIVersions", "apiVersion": "v1", "versions": ["v1"]}
        case ["apis"]:
            groups = [_group(name, versions) for name, versions in _groups(kinds) if name]
            return JSON, {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["api", version]:
            return _resource_list("", version, kinds)
        case ["apis", wanted]:
            found = dict(_groups(kinds)).get(wanted)
            about = {"kind": "APIGroup", "apiVersion": "v1"}
            return (JSON, about | _group(wanted, found)) if wanted and found else None
        case ["apis", group, version]:
            return _resource_list(group, version, kinds)
    return None


def _version() -> Object:
    major, minor = KUBERNETES_VERSION
    return {
        "major": str(major),
        "minor": str(minor),
        "emulationMajor": str(major),
        "emulationMinor": str(minor),
        "minCompatibilityMajor": str(major),
        "minCompatibilityMinor": str(minor - 1),
        "gitVersion": f"v{major}.{minor}.0+simulator",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "simulator",
    }


def group_versions(kinds: Iterable[ResourceKind]) -> dict[tuple[str, str], list[ResourceKind]]:
    """Return the kinds under each group and version, with the best version of each group first."""
    found: dict[str, list[ResourceKind]] = {}
    for kind in kinds:
        if kind.served:
            found.setdefault(kind.group, []).append(kind)
    return {
        (group, version): sorted(members, key=lambda kind: kind.plural)
        for group, in_group in found.items()
        for version, members in groupby(
            sorted(in_group, key=lambda kind: _rank(kind.version)), key=lambda kind: kind.version
        )
    }


def _rank(version: str) -> tuple[int, int, int, str]:
    """Return the sort key of a version: v2, v1, v2beta1, v1beta2, v1alpha1, then all others."""
    number, _, rest = version.removeprefix("v").replace("alpha", " 2 ").replace("beta", " 1 ").partition(" ")
    stage, _, revision = rest.partition(" ")
    if not version.startswith("v") or not number.isdigit() or (stage and not revision.strip().isdigit()):
        return 3, 0, 0, version
    return int(stage or 0), -int(number), -int(revision or 0), version


def _groups(kinds: KindRegistry) -> Iterator[tuple[str, list[str]]]:
    for group, pairs in groupby(group_versions(kinds), key=lambda pair: pair[0]):
        yield group, [version for _, version in pairs]


def _group(name: str, versions: list[str]) -> Object:
    document = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": document, "preferredVersion": document[0]}


def _resource_list(group: str, version: str, kinds: KindRegistry) -> tuple[str, Object] | None:
    members = group_versions(kinds).get((group, version))
    if members is None:
        return None
    return JSON, {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": [resource for kind in members for resource in _resources(kind)],
    }


def _resources(kind: ResourceKind) -> Iterator[Object]:
    yield {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.name,
        "verbs": list(kind.verbs),
        **_names(kind),
    }
    for name in sorted(kind.subresources):
        found = _SUBRESOURCES.get(name, _Subresource())
        yield {
            "name": f"{kind.plural}/{name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            **({"group": found.group, "version": found.version} if found.group else {}),
            "kind": found.kind or kind.name,
            "verbs": list(found.verbs),
        }


def _names(kind: ResourceKind) -> Object:
    names = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    return {field: values for field, values in names.items() if values}


def _aggregated(kinds: KindRegistry, *, core: bool) -> Object:
    groups: dict[str, list[Object]] = {}
    for (group, version), members in group_versions(kinds).items():
        if core == (not group):
            document = {
                "version": version,
                "resources": [_aggregated_resource(kind) for kind in members],
                "freshness": "Current",
            }
            groups.setdefault(group, []).append(document)
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {"metadata": {"name": group} if group else {}, "versions": versions}
            for group, versions in groups.items()
        ],
    }


def _aggregated_resource(kind: ResourceKind) -> Object:
    document = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.name},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
        **_names(kind),
    }
    if kind.subresources:
        document["subresources"] = [_aggregated_subresource(kind, name) for name in sorted(kind.subresources)]
    return document


def _aggregated_subresource(kind: ResourceKind, name: str) -> Object:
    found = _SUBRESOURCES.get(name, _Subresource())
    return {
        "subresource": name,
        "responseKind": {
            "group": found.group or kind.group,
            "version": found.version or kind.version,
            "kind": found.kind or kind.name,
        },
        "verbs": list(found.verbs),
    }
