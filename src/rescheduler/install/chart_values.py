"""The values of the Helm chart, described: `values.yaml` and its schema, from the types of the options."""

import json
from typing import Any, NamedTuple, get_args

import msgspec
import yaml

from rescheduler.install.options import Options
from rescheduler.kube.resources import Object

__all__ = ["Value", "described", "values", "values_schema"]


class Value(NamedTuple):
    field: str
    """As the code calls it."""
    name: str
    """As the chart calls it."""
    description: str
    group: type[msgspec.Struct] | None
    """Where it consists of further values."""


def described(kind: type[msgspec.Struct]) -> list[Value]:
    _, components = msgspec.json.schema_components([kind])
    properties = components[kind.__name__]["properties"]
    return [
        Value(each.name, each.encode_name, properties[each.encode_name]["description"], _group(each.type))
        for each in msgspec.structs.fields(kind)
    ]


def _group(declared: Any) -> type[msgspec.Struct] | None:
    inner = (get_args(declared) or (declared,))[0]
    return inner if isinstance(inner, type) and issubclass(inner, msgspec.Struct) else None


def values(kind: type[msgspec.Struct] = Options, indent: str = "") -> str:
    """Each with its description above it."""
    lines: list[str] = []
    defaults = msgspec.to_builtins(kind())
    for value in described(kind):
        lines.append(f"{indent}# {value.description}")
        if value.group is not None:
            lines += [f"{indent}{value.name}:", values(value.group, indent + "  ").rstrip()]
        else:
            default = {value.name: defaults[value.name]}
            written = yaml.safe_dump(default, sort_keys=False, allow_unicode=True).rstrip()
            lines += [indent + line for line in written.splitlines()]
        if not indent:
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def values_schema() -> str:
    """Without references, which Helm would have to resolve. Defaults are in `values.yaml`."""
    _, components = msgspec.json.schema_components([Options])
    schema = {"$schema": "http://json-schema.org/draft-07/schema#"}
    return json.dumps(schema | _resolved(components["Options"], components), indent=2) + "\n"


def _resolved(schema: Any, components: Object) -> Any:
    if isinstance(schema, list):
        return [_resolved(each, components) for each in schema]
    if not isinstance(schema, dict):
        return schema
    said = {key: value for key, value in schema.items() if key not in {"allOf", "anyOf", "$ref", "default"}}
    for part in (*schema.get("allOf", ()), *schema.get("anyOf", ()), {"$ref": schema.get("$ref")}):
        if part.get("$ref"):
            name = part["$ref"].rpartition("/")[2]
            return {**_resolved(components[name], components), **said}
    return {key: _resolved(value, components) for key, value in said.items()}
