"""The parts of the OpenAPI documents that kubectl reads.

- `create`, `apply`, `replace`, `patch` look for `fieldValidation` of PATCH: every kind has it, so that the
  server validates.
- `apply` looks for merge keys: the document offers no strategic merge patch, so kubectl uses its built-in
  keys. A schema without all merge keys would make kubectl compute wrong patches.
- `explain` reads fields and descriptions: custom resources have those of their definition, built-in kinds
  have all fields but no descriptions.

kubectl asks for version 2 only where version 3 has no answer: an empty document is enough.
"""

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha512

from kubesim.admission.object_decoding import fields_by_type, type_of
from kubesim.apiserver.api_messages import JSON, Object, encode
from kubesim.apiserver.discovery_documents import KUBERNETES_VERSION, group_versions
from kubesim.apiserver.kind_registry import KindRegistry, ResourceKind

__all__ = ["Schemas", "openapi_response", "schema_of_fields", "schemas_below"]

_SCALARS: dict[str, Object] = {
    "any": {"type": "object"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "double": {"type": "number", "format": "double"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "intstr": {"type": "string", "format": "int-or-string"},
    "microtime": {"type": "string", "format": "date-time"},
    "quantity": {"type": "string"},
    "schemaor": {"type": "object"},
    "string": {"type": "string"},
    "time": {"type": "string", "format": "date-time"},
}


def schema_of_fields(kind: ResourceKind) -> Object | None:
    """Return the schema of one kind, with references to `schemas_below`, or None for unknown kinds."""
    name = type_of(kind)
    return _schema(name) if name else None


def schemas_below(kinds: Iterable[ResourceKind]) -> dict[str, Object]:
    """Return, by name, the schemas of all types inside objects of these kinds."""
    wanted = [name for kind in kinds if (name := type_of(kind))]
    found: dict[str, Object] = {}
    while wanted:
        for inner in _inside(wanted.pop()):
            if inner not in found:
                found[inner] = _schema(inner)
                wanted.append(inner)
    return found


def _inside(name: str) -> Iterator[str]:
    for notation in fields_by_type()[name].values():
        bare = notation.strip("[]{}")
        if bare not in _SCALARS:
            yield bare


def _schema(name: str) -> Object:
    properties = {field: _field(notation) for field, notation in fields_by_type()[name].items()}
    return {"type": "object", "properties": properties}


def _field(notation: str) -> Object:
    if notation.startswith("["):
        return {"type": "array", "items": _field(notation[1:-1])}
    if notation.startswith("{"):
        return {"type": "object", "additionalProperties": _field(notation[1:-1])}
    return _SCALARS.get(notation) or {"$ref": f"#/components/schemas/{notation}"}


Schemas = Callable[[ResourceKind], Object | None]
"""The schema of a custom resource's definition; None for other kinds."""

# Clients ask for the first; it is no valid media type, so they only take it back under the second.
V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
V2_PROTOBUF_SENT = V2_PROTOBUF.replace("@", ".")

_ROOT = "openapi/v3"
_INFO = {"title": "Kubernetes", "version": "v{}.{}".format(*KUBERNETES_VERSION)}
_PATCHES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force")


def openapi_response(
    path: str, kinds: KindRegistry, accept: str, schemas: Schemas = lambda _: None
) -> tuple[str, bytes] | None:
    """Return content type and body, or None if the path names no document."""
    wanted = path.strip("/")
    if wanted == "openapi/v2":
        return (V2_PROTOBUF_SENT, _v2_protobuf()) if V2_PROTOBUF in accept else (JSON, encode(_v2()))
    if not f"{wanted}/".startswith(f"{_ROOT}/"):
        return None
    name = wanted.removeprefix(_ROOT).removeprefix("/")
    documents = {
        f"api/{version}" if not group else f"apis/{group}/{version}": members
        for (group, version), members in group_versions(kinds).items()
    }
    if not name:
        return JSON, encode({"paths": {name: _link(name, documents[name], schemas) for name in documents}})
    members = documents.get(name)
    return (JSON, encode(_document(members, schemas))) if members is not None else None


def _link(name: str, members: list[ResourceKind], schemas: Schemas) -> Object:
    """Return the address with a hash of the document, for clients that cache documents."""
    digest = sha512(encode(_document(members, schemas))).hexdigest().upper()
    return {"serverRelativeURL": f"/{_ROOT}/{name}?hash={digest}"}


def _document(members: list[ResourceKind], schemas: Schemas) -> Object:
    described = {_schema_name(kind): _kind_schema(kind, schemas(kind)) for kind in members}
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": {_object_path(kind): _operations(kind) for kind in members},
        "components": {"schemas": schemas_below(members) | described},
    }


def _object_path(kind: ResourceKind) -> str:
    root = f"/apis/{kind.group}" if kind.group else "/api"
    inside = "/namespaces/{namespace}" if kind.namespaced else ""
    return f"{root}/{kind.version}{inside}/{kind.plural}/{{name}}"


def _operations(kind: ResourceKind) -> Object:
    about = {"x-kubernetes-group-version-kind": _identity(kind)}
    shown = {"$ref": f"#/components/schemas/{_schema_name(kind)}"}
    responses = {"200": {"description": "OK", "content": {JSON: {"schema": shown}}}}
    operations: Object = {"get": {"responses": responses, "x-kubernetes-action": "get", **about}}
    if "patch" in kind.verbs:
        operations["patch"] = {
            "parameters": [
                {"name": name, "in": "query", "schema": {"type": "string"}} for name in _PARAMETERS
            ],
            "requestBody": {"content": {patch: {"schema": {"type": "object"}} for patch in _PATCHES}},
            "responses": responses,
            "x-kubernetes-action": "patch",
            **about,
        }
    return operations


def _identity(kind: ResourceKind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.name}


def _schema_name(kind: ResourceKind) -> str:
    return ".".join(part for part in (kind.group, kind.version, kind.name) if part)


_OUTERMOST: Object = {
    "apiVersion": {"type": "string", "description": "API group and version of the object."},
    "kind": {"type": "string", "description": "Kind of the object."},
    "metadata": {"type": "object", "description": "Name, labels, owners and history of the object."},
}


def _kind_schema(kind: ResourceKind, defined: Object | None) -> Object:
    found = defined or schema_of_fields(kind) or {}
    return {
        "type": "object",
        "description": f"{kind.name}, as the simulated API server stores it.",
        **found,
        "properties": _OUTERMOST | (found.get("properties") or {}),
        "x-kubernetes-group-version-kind": [_identity(kind)],
    }


def _v2() -> Object:
    return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}}


def _v2_protobuf() -> bytes:
    """Return the version 2 document as protobuf: `{swagger = 1, info = 2 {title = 1, version = 2}}`."""
    info = _text(1, _INFO["title"]) + _text(2, _INFO["version"])
    return _text(1, "2.0") + _protobuf_field(2, info)


def _text(number: int, value: str) -> bytes:
    return _protobuf_field(number, value.encode())


def _protobuf_field(number: int, value: bytes) -> bytes:
    """Encode a length-delimited field of less than 128 bytes, whose length is one byte."""
    return bytes([number << 3 | 2, len(value)]) + value
