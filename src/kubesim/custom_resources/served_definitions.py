"""The kinds, schemas, columns and scales of a CustomResourceDefinition, read from it when needed."""

from collections.abc import Iterable
from copy import deepcopy
from datetime import datetime

from kubesim.admission.admission_lookup import Lookup
from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.custom_resources.custom_schema import CustomSchema, ScalePaths

__all__ = [
    "CLEANUP_FINALIZER",
    "definition_of",
    "established",
    "is_terminating",
    "kinds_of",
    "printer_columns",
    "scale_paths",
    "schema_of",
]

CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer of a definition until the objects of its kind are deleted."""


def kinds_of(definition: Object) -> list[ResourceKind]:
    """Return one kind per version, whether it is served or not."""
    spec = definition["spec"]
    names = spec["names"]
    return [
        ResourceKind(
            group=spec["group"],
            version=version["name"],
            name=names["kind"],
            plural=names["plural"],
            singular=names.get("singular", names["kind"].lower()),
            short_names=tuple(names.get("shortNames", ())),
            categories=tuple(names.get("categories", ())),
            namespaced=spec.get("scope") == "Namespaced",
            subresources=tuple(sorted(version.get("subresources", ()))),
            has_generation=True,
            custom=True,
            served=bool(version.get("served")),
            must_name_version=True,
        )
        for version in spec.get("versions", ())
    ]


def definition_of(kind: ResourceKind, lookup: Lookup) -> Object | None:
    return lookup("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", f"{kind.plural}.{kind.group}")


def is_terminating(kind: ResourceKind, lookup: Lookup) -> bool:
    """Return whether the definition is being deleted, so that no new objects are accepted."""
    definition = definition_of(kind, lookup) or {"metadata": {}}
    return "deletionTimestamp" in definition["metadata"]


def _version_of(kind: ResourceKind, lookup: Lookup) -> Object:
    definition = definition_of(kind, lookup) or {"spec": {}}
    versions: Iterable[Object] = definition["spec"].get("versions", ())
    return next((version for version in versions if version["name"] == kind.version), {})


def schema_of(kind: ResourceKind, lookup: Lookup) -> CustomSchema | None:
    root = _version_of(kind, lookup).get("schema", {}).get("openAPIV3Schema")
    return CustomSchema(root, scale_paths(kind, lookup)) if root else None


def scale_paths(kind: ResourceKind, lookup: Lookup) -> ScalePaths | None:
    scale = _version_of(kind, lookup).get("subresources", {}).get("scale")
    if scale is None:
        return None
    return ScalePaths(
        scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", "")
    )


def printer_columns(kind: ResourceKind, lookup: Lookup) -> list[Object]:
    columns: list[Object] = _version_of(kind, lookup).get("additionalPrinterColumns", [])
    return columns


def established(definition: Object, others: Iterable[Object], now: datetime) -> Object:
    """Return the definition with its status: names accepted, or in conflict with those of `others`.

    Only a definition whose names were accepted may be served.
    """
    names = definition["spec"]["names"]
    conflict = _conflict(definition, others)
    moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    entries = [("NamesAccepted", "True", "NoConflicts", "no conflicts found")]
    if conflict:
        field, taken = conflict
        entries = [("NamesAccepted", "False", f"{field}Conflict", f'"{taken}" is already in use'),
                ("Established", "False", "NotAccepted", "not all names are accepted")]  # fmt: skip
    else:
        message = "the initial names have been accepted"
        entries.append(("Established", "True", "InitialNamesAccepted", message))
    if "deletionTimestamp" in definition["metadata"]:
        message = "CustomResource deletion is in progress"
        entries.append(("Terminating", "True", "InstanceDeletionInProgress", message))
    result = deepcopy(definition)
    status = result.setdefault("status", {})
    before = {condition["type"]: condition for condition in status.get("conditions") or ()}
    status["conditions"] = [
        {
            "type": kind,
            "status": value,
            "lastTransitionTime": _since(before.get(kind), value, moment),
            "reason": reason,
            "message": message,
        }
        for kind, value, reason, message in entries
    ]
    status["acceptedNames"] = {} if conflict else deepcopy(names)
    status["storedVersions"] = _stored_versions(definition)
    return result


def _since(before: Object | None, value: str, moment: str) -> str:
    if before and before.get("status") == value:
        return str(before["lastTransitionTime"])
    return moment


def _stored_versions(definition: Object) -> list[str]:
    """Return the versions in which objects may be stored, including earlier storage versions."""
    known: list[str] = list(definition.get("status", {}).get("storedVersions") or ())
    current = [v["name"] for v in definition["spec"].get("versions", ()) if v.get("storage")]
    return [*known, *(name for name in current if name not in known)]


def _conflict(definition: Object, others: Iterable[Object]) -> tuple[str, str] | None:
    spec, own_name = definition["spec"], definition["metadata"].get("name")
    for other in others:
        if other["metadata"].get("name") == own_name or other["spec"].get("group") != spec["group"]:
            continue
        taken = other["spec"]["names"]
        resources = {taken.get("plural"), taken.get("singular"), *taken.get("shortNames", ())}
        names = spec["names"]
        for field, wanted in (
            ("Plural", [names["plural"]]),
            ("Singular", [names.get("singular")]),
            ("ShortNames", names.get("shortNames", [])),
        ):
            for name in wanted:
                if name and name in resources:
                    return field, name
        for field in ("kind", "listKind"):
            if names.get(field) and names[field] in (taken.get("kind"), taken.get("listKind")):
                return field[0].upper() + field[1:], names[field]
    return None
