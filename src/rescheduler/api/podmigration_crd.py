"""The CustomResourceDefinition of `PodMigration`, generated from the types in `podmigration`."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from rescheduler.api.podmigration import MigrationPhase, MigrationSpec, MigrationStatus
from rescheduler.api.well_known_names import GROUP, INSTALL_ID, POD_MIGRATION_KIND, SHARED_INSTALL_ID, VERSION

__all__ = ["PODMIGRATION_CRD_NAME", "POD_MIGRATION_PLURAL", "missing_crd_parts", "podmigration_crd"]

POD_MIGRATION_PLURAL: Final = "podmigrations"
PODMIGRATION_CRD_NAME: Final = f"{POD_MIGRATION_PLURAL}.{GROUP}"

_STRUCTURAL_KEYWORDS: Final = frozenset(
    {
        "default",
        "description",
        "enum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maximum",
        "minLength",
        "minimum",
        "properties",
        "required",
        "type",
    }
)
"""The keywords of JSON Schema that structural schemas allow and our types use."""

_SPEC_IS_IMMUTABLE: Final = {
    "rule": "self == oldSelf",
    "message": "spec is immutable: delete this PodMigration and create another",
}
_TARGET_IS_ANOTHER_NODE: Final = {
    "rule": "!has(self.targetNode) || self.targetNode != self.sourceNode",
    "message": "targetNode must differ from sourceNode",
}

_PRINTER_COLUMNS: Final = (
    ("Pod", "string", ".spec.pod.name", 0),
    ("From", "string", ".spec.sourceNode", 0),
    ("To", "string", ".status.targetNode", 0),
    ("Phase", "string", ".status.phase", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Step", "string", ".status.step", 1),
    ("Strategy", "string", ".spec.strategy", 1),
    ("Handover", "string", ".status.handover", 1),
    ("Message", "string", ".status.message", 1),
)
"""The columns of `kubectl get`; those with priority 1 are shown with `-o wide`."""


def podmigration_crd() -> dict[str, Any]:
    spec = _structural_schema(MigrationSpec)
    spec["x-kubernetes-validations"] = [_SPEC_IS_IMMUTABLE, _TARGET_IS_ANOTHER_NODE]
    status = _structural_schema(MigrationStatus)
    # A map, as in other kinds: two writers of different conditions don't overwrite each other.
    status["properties"]["conditions"] |= {
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }
    # With these defaults, the phase is shown at once without a write, and again after a postponement.
    status["default"] = {}
    status["properties"]["phase"]["default"] = MigrationPhase.PENDING.value
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": PODMIGRATION_CRD_NAME,
            "labels": {"app.kubernetes.io/name": "rescheduler", INSTALL_ID: SHARED_INSTALL_ID},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "plural": POD_MIGRATION_PLURAL,
                "singular": POD_MIGRATION_KIND.lower(),
                "kind": POD_MIGRATION_KIND,
                "listKind": f"{POD_MIGRATION_KIND}List",
                "shortNames": ["pmig"],
                "categories": ["rescheduler"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "description": "PodMigration moves one pod to another node.",
                            "required": ["spec"],
                            "properties": {
                                "apiVersion": {"type": "string"},
                                "kind": {"type": "string"},
                                "metadata": {"type": "object"},
                                "spec": spec,
                                "status": status,
                            },
                        }
                    },
                    # Budgets with maxUnavailable or a percentage add up the replicas of the controllers of
                    # their pods. The controller of a copy is its migration, which must add none.
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                        },
                    },
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind, "jsonPath": path, "priority": priority}
                        for name, kind, path, priority in _PRINTER_COLUMNS
                    ],
                }
            ],
        },
    }


def missing_crd_parts(installed: dict[str, Any]) -> list[str]:
    """Return the paths, such as `spec.rooms`, that this version needs and the installed CRD lacks.

    The API server drops a field that the CRD does not have, without an error. A newer CRD lacks nothing,
    because within one API version a CRD only gains fields.
    """
    found = next((each for each in _versions(installed) if each.get("name") == VERSION), None)
    if found is None or not found.get("served"):
        return [f"version {VERSION}"]
    (needed,) = _versions(podmigration_crd())
    subresources = found.get("subresources") or {}
    return [
        *_missing_fields(
            (found.get("schema") or {}).get("openAPIV3Schema") or {}, needed["schema"]["openAPIV3Schema"], ""
        ),
        *(f"subresource {name}" for name in needed["subresources"] if name not in subresources),
    ]


def _versions(crd: dict[str, Any]) -> list[dict[str, Any]]:
    return list((crd.get("spec") or {}).get("versions") or ())


def _missing_fields(installed: dict[str, Any], needed: dict[str, Any], path: str) -> Iterator[str]:
    """Yield the paths of missing fields, without those below them, and of missing values of enumerations."""
    if installed.get("x-kubernetes-preserve-unknown-fields"):
        return
    known = installed.get("properties") or {}
    for name, schema in (needed.get("properties") or {}).items():
        if name in known:
            yield from _missing_fields(known[name], schema, f"{path}{name}.")
        else:
            yield f"{path}{name}"
    if "items" in needed:
        yield from _missing_fields(installed.get("items") or {}, needed["items"], path)
    if "enum" in installed:
        yield from (f"{path[:-1]}={each}" for each in needed.get("enum", ()) if each not in installed["enum"])


def _structural_schema(of: type[msgspec.Struct]) -> dict[str, Any]:
    (schema,), named = msgspec.json.schema_components([of], ref_template="{name}")
    return _inlined_schema(schema, named)


def _inlined_schema(schema: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with references resolved and "this or null" as "this": in the API, null is an absent
    field."""
    if "$ref" in schema:
        schema = named[schema["$ref"]] | {key: value for key, value in schema.items() if key != "$ref"}
    if "anyOf" in schema:
        (known,) = (each for each in schema["anyOf"] if each.get("type") != "null")
        return _inlined_schema(known | {key: value for key, value in schema.items() if key != "anyOf"}, named)
    plain = {key: value for key, value in schema.items() if key in _STRUCTURAL_KEYWORDS}
    if "enum" in plain:
        plain["type"] = "string"
    # Budgets read `replicas`, so the server must set its default, 0. The code applies all other defaults.
    if "default" in plain and plain["default"] != 0:
        del plain["default"]
    if "properties" in plain:
        plain["properties"] = {
            name: _inlined_schema(each, named) for name, each in plain["properties"].items()
        }
    if "items" in plain:
        plain["items"] = _inlined_schema(plain["items"], named)
    return plain
