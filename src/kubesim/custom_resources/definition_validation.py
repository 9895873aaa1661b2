"""Validation of CustomResourceDefinitions: names, versions, structural schemas, and fields in rules."""

import re
from collections.abc import Iterator

from kubesim.admission import field_errors, name_syntax
from kubesim.admission.cel_evaluation import UnsupportedExpression, compile_expression, inner_nodes
from kubesim.admission.cel_syntax import CelNode, NameNode, SelectNode
from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.status_errors import FieldError
from kubesim.custom_resources.schema_values import check_value

__all__ = ["check_definition", "unknown_fields"]

_SHOWN_TYPES = {"integer": "int", "number": "double", "boolean": "bool"}
_OF_OBJECTS: Object = {"x-kubernetes-preserve-unknown-fields": True}


def unknown_fields(node: CelNode, schema: Object) -> Iterator[str]:
    """Yield a message for each field in a rule that the schema does not have."""
    for inner in inner_nodes(node):
        yield from unknown_fields(inner, schema)
    if isinstance(node, SelectNode):
        target = _schema_at(node.target, schema)
        if target is not None and _schema_of_field(target, node.field) is None:
            yield _complaint(target, node.field)


def _schema_at(node: CelNode, schema: Object) -> Object | None:
    """Return the schema of the value of a node, or None if it is unknown."""
    match node:
        case NameNode(name="self") | NameNode(name="oldSelf"):
            return schema
        case SelectNode(target=inner, field=field):
            target = _schema_at(inner, schema)
            return None if target is None else _schema_of_field(target, field)
        case _:
            return None


def _schema_of_field(schema: Object, field: str) -> Object | None:
    if schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-int-or-string"):
        return _OF_OBJECTS
    properties: dict[str, Object] = schema.get("properties", {})
    further = schema.get("additionalProperties")
    if field in properties:
        return properties[field]
    if isinstance(further, dict):
        return further
    return _OF_OBJECTS if field in ("metadata", "apiVersion", "kind") else None


def _complaint(schema: Object, field: str) -> str:
    kind = schema.get("type", "")
    if kind == "object":
        return f"undefined field '{field}'"
    return f"type '{_SHOWN_TYPES.get(kind, kind)}' does not support field selection"


_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_LIST_TYPES = ("atomic", "set", "map")
_NOT_IN_ALTERNATIVES = ("type", "description", "default", "additionalProperties", "nullable")
_SIMPLE_PATH = "must be a simple json path starting with ."


def check_definition(new: Object, old: Object | None) -> Iterator[FieldError]:
    spec = new["spec"]
    yield from _check_names(new)
    scope = spec.get("scope", "")
    if not scope:
        yield field_errors.required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield field_errors.not_supported("spec.scope", scope, ("Cluster", "Namespaced"))
    yield from _check_versions(spec.get("versions", []))
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        yield field_errors.invalid("spec.preserveUnknownFields", True, detail)
    if spec.get("conversion", {}).get("strategy", "None") != "None":
        detail = "this server converts between versions only by changing the apiVersion (strategy None)"
        yield field_errors.invalid("spec.conversion.strategy", spec["conversion"]["strategy"], detail)
    yield from _check_kept(spec, (old or {}).get("spec"))


def _check_kept(spec: Object, before: Object | None) -> Iterator[FieldError]:
    if before is None:
        return
    for field in ("group", "scope"):
        if spec.get(field) != before.get(field):
            yield field_errors.immutable(f"spec.{field}", spec.get(field))
    for field in ("plural", "kind"):
        if spec["names"].get(field) != before["names"].get(field):
            yield field_errors.immutable(f"spec.names.{field}", spec["names"].get(field))


def _check_names(definition: Object) -> Iterator[FieldError]:
    spec, name = definition["spec"], definition["metadata"].get("name", "")
    given, group = spec.get("names", {}), spec.get("group", "")
    if name != f"{given.get('plural', '')}.{group}":
        yield field_errors.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield field_errors.required("spec.group")
    elif complaints := name_syntax.dns_subdomain(group):
        yield field_errors.invalid("spec.group", group, ",".join(complaints))
    elif "." not in group:
        yield field_errors.invalid("spec.group", group, "should be a domain with at least one dot")
    for field in ("plural", "singular", "kind", "listKind"):
        if not given.get(field):
            yield field_errors.required(f"spec.names.{field}")
            continue
        for complaint in name_syntax.dns_1035_label(given[field].lower() if "ind" in field else given[field]):
            shown = given[field]
            yield field_errors.invalid(f"spec.names.{field}", shown, complaint)


def _check_versions(versions: list[Object]) -> Iterator[FieldError]:
    storing = [version.get("name", "") for version in versions if version.get("storage")]
    given = [version.get("name", "") for version in versions]
    if len(set(given)) != len(given):
        yield field_errors.invalid("spec.versions", versions, "must contain unique version names")
    if len(storing) != 1:
        detail = "must have exactly one version marked as storage version"
        yield field_errors.invalid("spec.versions", versions, detail)
    if not storing:
        yield field_errors.invalid("status.storedVersions", None, "must have at least one stored version")
    for further in storing[1:]:
        detail = f"must have the storage version {further}"
        yield field_errors.invalid("status.storedVersions", storing[:1], detail)
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        for complaint in name_syntax.dns_1035_label(version.get("name", "")):
            yield field_errors.invalid(f"{path}.name", version.get("name", ""), complaint)
            if not index:  # the real server keeps a copy of the first version's name at the top
                yield field_errors.invalid("spec.version", version.get("name", ""), complaint)
        yield from _check_version(version, path, alone=len(versions) == 1)


def _check_version(version: Object, path: str, *, alone: bool) -> Iterator[FieldError]:
    """Check a version; faults of a single version are reported at the top level."""
    schema = version.get("schema", {}).get("openAPIV3Schema")
    if schema is None:
        yield field_errors.required(f"{path}.schema.openAPIV3Schema")
    else:
        here = "spec.validation.openAPIV3Schema" if alone else f"{path}.schema.openAPIV3Schema"
        if schema.get("type") != "object":
            yield field_errors.invalid(f"{here}.type", schema.get("type", ""), "must be object at the root")
        yield from _check_schema(schema, here)
    top = "spec" if alone else path
    if "scale" in version.get("subresources", {}):
        yield from _check_scale(version["subresources"]["scale"], f"{top}.subresources.scale")
    for index, column in enumerate(version.get("additionalPrinterColumns", ())):
        yield from _check_column(column, f"{top}.additionalPrinterColumns[{index}]")


def _check_scale(scale: Object, path: str) -> Iterator[FieldError]:
    for field, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        place = scale.get(field, "")
        if not place:
            yield field_errors.required(f"{path}.{field}")
        elif not place.startswith("."):
            yield field_errors.invalid(f"{path}.{field}", place, _SIMPLE_PATH)
        elif not place.startswith(root):
            detail = f"should be a json path under {root.rstrip('.')}"
            yield field_errors.invalid(f"{path}.{field}", place, detail)


def _check_column(column: Object, path: str) -> Iterator[FieldError]:
    if not column.get("name"):
        yield field_errors.required(f"{path}.name")
    kind, place = column.get("type", ""), column.get("jsonPath", "")
    if not kind:
        yield field_errors.required(f"{path}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
    elif kind not in _COLUMN_TYPES:
        yield field_errors.invalid(f"{path}.type", kind, f"must be one of {','.join(_COLUMN_TYPES)}")
    if not place:
        yield field_errors.required(f"{path}.JSONPath")
    elif not place.startswith("."):
        yield field_errors.invalid(f"{path}.JSONPath", place, _SIMPLE_PATH)


def _check_schema(schema: Object, path: str) -> Iterator[FieldError]:
    yield from _check_type(schema, path)
    yield from _check_pattern(schema, path)
    yield from _check_list_type(schema, path)
    if "properties" in schema and schema.get("additionalProperties") not in (None, False):
        detail = "additionalProperties and properties are mutual exclusive"
        yield field_errors.forbidden(f"{path}.additionalProperties", detail)
    if "default" in schema:
        for fault in check_value(schema["default"], schema, ""):
            yield fault._replace(field=f"{path}.default{'.' if fault.field else ''}{fault.field}")
    yield from _check_rules(schema, path)
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, option in enumerate(schema.get(keyword, ())):
            if schema.get("x-kubernetes-int-or-string") and _is_number_or_text(option):
                continue
            yield from _check_alternative(option, f"{path}.{keyword}[{index}]")
    for field, inner in schema.get("properties", {}).items():
        yield from _check_schema(inner, f"{path}.properties[{field}]")
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from _check_schema(schema[keyword], f"{path}.{keyword}")


def _check_type(schema: Object, path: str) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    if kind and kind not in _TYPES:
        yield field_errors.not_supported(f"{path}.type", kind, _TYPES)
    free = schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-int-or-string")
    if not kind and not free:
        in_list = path.endswith(".items")
        what = "array items" if in_list else "object fields"
        yield field_errors.required(f"{path}.type", f"must not be empty for specified {what}")
    if kind == "array" and "items" not in schema:
        yield field_errors.required(f"{path}.items", "must be specified")


def _check_pattern(schema: Object, path: str) -> Iterator[FieldError]:
    try:
        re.compile(schema.get("pattern", ""))
    except re.error as error:
        detail = f"must be a valid regular expression, but isn't: {error}"
        yield field_errors.invalid(f"{path}.pattern", schema["pattern"], detail)


def _check_list_type(schema: Object, path: str) -> Iterator[FieldError]:
    list_type = schema.get("x-kubernetes-list-type")
    if list_type is None:
        return
    if list_type not in _LIST_TYPES:
        yield field_errors.not_supported(f"{path}.x-kubernetes-list-type", list_type, _LIST_TYPES)
    if list_type == "map" and not schema.get("x-kubernetes-list-map-keys"):
        detail = "must not be empty if x-kubernetes-list-type is map"
        yield field_errors.required(f"{path}.x-kubernetes-list-map-keys", detail)


def _check_rules(schema: Object, path: str) -> Iterator[FieldError]:
    for index, rule in enumerate(schema.get("x-kubernetes-validations", ())):
        here = f"{path}.x-kubernetes-validations[{index}]"
        if not rule.get("rule", "").strip():
            yield field_errors.required(f"{here}.rule", "rule is not specified")
            continue
        try:
            expression = compile_expression(rule["rule"])
        except UnsupportedExpression as unsupported:
            yield field_errors.invalid(f"{here}.rule", rule, f"compilation failed: {unsupported}")
            continue
        for complaint in unknown_fields(expression.tree, schema):
            yield field_errors.invalid(f"{here}.rule", rule, f"compilation failed: {complaint}")
        for field in ("messageExpression", "optionalOldSelf"):
            if rule.get(field):
                yield field_errors.forbidden(f"{here}.{field}", "this server can't evaluate it")


def _is_number_or_text(option: Object) -> bool:
    """Return whether this is the one form of alternatives that may have types."""
    nested = option.get("anyOf")
    if nested is not None:
        return all(_is_number_or_text(inner) for inner in nested)
    return option.keys() == {"type"} and option["type"] in ("integer", "string")


def _check_alternative(option: Object, path: str) -> Iterator[FieldError]:
    """Check that an alternative restricts values but does not define types."""
    for field, inner in option.get("properties", {}).items():
        yield from _check_alternative(inner, f"{path}.properties[{field}]")
    for field in _NOT_IN_ALTERNATIVES:
        if field in option:
            yield field_errors.forbidden(f"{path}.{field}", "must be empty to be structural")
