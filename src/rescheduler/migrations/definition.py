"""The CustomResourceDefinition of `PodMigration`, made from the types of `model.migrations`."""

from typing import Any, Final

import msgspec

from rescheduler.model.installation import INSTALL_ID, SHARED
from rescheduler.model.migrations import GROUP, KIND, VERSION, MigrationSpec, MigrationStatus, Phase

__all__ = ["NAME", "PLURAL", "definition"]

PLURAL: Final = "podmigrations"
NAME: Final = f"{PLURAL}.{GROUP}"

_KEPT: Final = frozenset(
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
"""Of JSON Schema, what structural schemas know and our types use."""

_NEVER_CHANGES: Final = {
    "rule": "self == oldSelf",
    "message": "a migration's spec never changes: delete this one and create another",
}
_GOES_ELSEWHERE: Final = {
    "rule": "!has(self.targetNode) || self.targetNode != self.sourceNode",
    "message": "the target must be another node than the source",
}

_COLUMNS: Final = (
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
"""Those with priority 1 are shown with `-o wide`."""


def definition() -> dict[str, Any]:
    spec = _structural(MigrationSpec)
    spec["x-kubernetes-validations"] = [_NEVER_CHANGES, _GOES_ELSEWHERE]
    status = _structural(MigrationStatus)
    # As other kinds have it: two writers of different conditions don't overwrite each other.
    status["properties"]["conditions"] |= {
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }
    # Shown from the first moment, at the cost of no write; and when it is Pending again after a postponement.
    status["default"] = {}
    status["properties"]["phase"]["default"] = Phase.PENDING.value
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": NAME,
            "labels": {"app.kubernetes.io/name": "rescheduler", INSTALL_ID: SHARED},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "plural": PLURAL,
                "singular": KIND.lower(),
                "kind": KIND,
                "listKind": f"{KIND}List",
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
                            "description": "One pod's move to another node: wish, course and end.",
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
                    # Budgets with maxUnavailable or a percentage ask a pod's controller how many pods it
                    # wants. A copy's is its migration, which wants none: the workload's own count stands.
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                        },
                    },
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind, "jsonPath": path, "priority": priority}
                        for name, kind, path, priority in _COLUMNS
                    ],
                }
            ],
        },
    }


def _structural(of: type[msgspec.Struct]) -> dict[str, Any]:
    (schema,), named = msgspec.json.schema_components([of], ref_template="{name}")
    return _plain(schema, named)


def _plain(schema: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    """References are put in place, "this or null" becomes "this": an absent field is the null of the API."""
    if "$ref" in schema:
        schema = named[schema["$ref"]] | {key: value for key, value in schema.items() if key != "$ref"}
    if "anyOf" in schema:
        (known,) = (each for each in schema["anyOf"] if each.get("type") != "null")
        return _plain(known | {key: value for key, value in schema.items() if key != "anyOf"}, named)
    plain = {key: value for key, value in schema.items() if key in _KEPT}
    if "enum" in plain:
        plain["type"] = "string"
    # Only what budgets read has to be there; other defaults are the code's business, not the server's.
    if "default" in plain and plain["default"] != 0:
        del plain["default"]
    if "properties" in plain:
        plain["properties"] = {name: _plain(each, named) for name, each in plain["properties"].items()}
    if "items" in plain:
        plain["items"] = _plain(plain["items"], named)
    return plain
