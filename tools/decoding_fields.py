"""Generate kubesim's `fields.txt` from the OpenAPI document of Kubernetes.

    python -m tools.decoding_fields 1.37.1 swagger.json > src/kubesim/admission/fields.txt

`swagger.json` is `api/openapi-spec/swagger.json` in the source of that version.

Only names and types are taken: one line per type, each field with the type of its value. Where two
groups have a type of the same name, the group is put in front (`events.Event`).
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kubesim.admission.object_decoding import EXTRA_KINDS
from kubesim.apiserver.kind_registry import BUILT_IN

__all__ = ["lines"]

Schema = dict[str, Any]

_LEAVES = {
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "microtime",
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "intstr",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray": "schemaor",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool": "schemaor",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray": "schemaor",
}
_SCALARS = {"boolean": "bool", "number": "double", "object": "any"}


def _target(schema: Schema) -> str:
    return str(schema["$ref"]).removeprefix("#/definitions/")


def _referenced(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield _target(schema)
        for inner in schema.values():
            yield from _referenced(inner)


def _roots(definitions: dict[str, Schema]) -> Iterator[str]:
    wanted = {(kind.group, kind.version, kind.name) for kind in BUILT_IN} | set(EXTRA_KINDS)
    for name, schema in definitions.items():
        for gvk in schema.get("x-kubernetes-group-version-kind", ()):
            if (gvk["group"], gvk["version"], gvk["kind"]) in wanted:
                yield name


def _reachable(definitions: dict[str, Schema]) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    to_visit = list(_roots(definitions))
    while to_visit:
        name = to_visit.pop()
        if name not in found and name not in _LEAVES:
            found[name] = definitions[name]
            to_visit.extend(_referenced(definitions[name]))
    return {name: schema for name, schema in found.items() if "properties" in schema}


def _short_names(names: list[str]) -> dict[str, str]:
    times = Counter(name.rpartition(".")[2] for name in names)
    short = {}
    for name in names:
        group, _, last = name.split(".")[-3:]
        plain = times[last] == 1 or group in ("core", "admissionregistration")
        short[name] = last if plain else f"{group}.{last}"
    return short


def _type(schema: Schema, short: dict[str, str]) -> str:
    if "$ref" in schema:
        target = _target(schema)
        return _LEAVES.get(target) or short.get(target, "any")
    kind = schema.get("type", "any")
    if kind == "array":
        return f"[{_type(schema['items'], short)}]"
    if "additionalProperties" in schema:
        return f"{{{_type(schema['additionalProperties'], short)}}}"
    if kind == "integer":
        return str(schema.get("format", "int64"))
    if kind == "string" and schema.get("format") == "byte":
        return "bytes"
    return _SCALARS.get(kind, str(kind))


def lines(definitions: dict[str, Schema]) -> Iterator[str]:
    found = _reachable(definitions)
    short = _short_names(list(found))
    for name in sorted(found, key=short.__getitem__):
        fields = found[name]["properties"]
        types = (f"{field}={_type(schema, short)}" for field, schema in sorted(fields.items()))
        yield f"{short[name]} {' '.join(types)}"


if __name__ == "__main__":
    _, version, swagger = sys.argv
    document = json.loads(Path(swagger).read_text("utf-8"))
    sys.stdout.write(f"# The fields of Kubernetes {version}, written by tools/decoding_fields.py.\n")
    sys.stdout.writelines(f"{line}\n" for line in lines(document["definitions"]))
