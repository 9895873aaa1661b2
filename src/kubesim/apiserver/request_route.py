"""Resolve the path of a request to an object or a collection."""

from typing import NamedTuple

from kubesim.apiserver.kind_registry import KindRegistry, ResourceKind

__all__ = ["RequestRoute", "find_route", "is_served"]


class RequestRoute(NamedTuple):
    kind: ResourceKind
    namespace: str = ""
    """Empty for cluster-scoped kinds, and for lists and watches across all namespaces."""
    name: str = ""
    """Empty for a collection."""
    subresource: str = ""

    @property
    def in_all_namespaces(self) -> bool:
        return self.kind.namespaced and not self.namespace


def find_route(path: str, kinds: KindRegistry) -> RequestRoute | None:
    """Return the route of a path, or None if nothing is served there."""
    steps = path.strip("/").split("/")
    if steps[0] == "api" and len(steps) > 2:
        group, version, rest = "", steps[1], steps[2:]
    elif steps[0] == "apis" and len(steps) > 3:
        group, version, rest = steps[1], steps[2], steps[3:]
    else:
        return None
    if rest[0] == "namespaces" and len(rest) > 2:
        inside = kinds.find(group, version, rest[2])
        if inside is not None and inside.namespaced:
            return _route(inside, rest[1], rest[3:])
    kind = kinds.find(group, version, rest[0])
    if kind is None:
        return None
    if kind.namespaced:
        return RequestRoute(kind) if len(rest) == 1 else None
    return _route(kind, "", rest[1:])


def is_served(path: str, kinds: KindRegistry) -> bool:
    """Return whether the path's group is served, on which the text of a 404 depends."""
    root, first, *_ = [*path.strip("/").split("/"), ""]
    if root == "api":
        return any(not kind.group and kind.version == first for kind in kinds)
    version = path.strip("/").split("/")[2:3]
    return root == "apis" and any(
        kind.group == first and (not kind.custom or [kind.version] == version) for kind in kinds
    )


def _route(kind: ResourceKind, namespace: str, rest: list[str]) -> RequestRoute | None:
    if len(rest) > 2 or not kind.served:
        return None
    name, subresource = [*rest, "", ""][:2]
    if subresource and subresource not in kind.subresources:
        return None
    return RequestRoute(kind, namespace, name, subresource)
