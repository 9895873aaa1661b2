"""What all parts of a scenario are written with: names, quantities, labels, references to objects."""

import re
from fnmatch import fnmatchcase
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, PlainValidator
from pydantic.alias_generators import to_camel

from rescheduler.model.quantity import QuantityError, parse_quantity
from rescheduler.simulator.behaviour.values import Pattern

__all__ = [
    "Name",
    "Names",
    "Part",
    "Quantity",
    "RawObject",
    "Reference",
    "ReferenceText",
    "Text",
]


class Part(BaseModel):
    """A map in the file; fields that it does not have are refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        arbitrary_types_allowed=True,
    )


def _quantity(value: object) -> str:
    text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        raise ValueError("must be a quantity such as 4, 500m or 16Gi")  # noqa: TRY004 - pydantic collects these
    try:
        negative = parse_quantity(text).nanos < 0
    except QuantityError:
        raise ValueError("must be a quantity such as 4, 500m or 16Gi") from None
    if negative:
        raise ValueError("must not be negative")
    return text


def _name(value: str) -> str:
    if len(value) > 253 or not re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", value):
        raise ValueError("must be a name: small letters, digits, - and ., such as worker-1")
    return value


def _text(value: object) -> object:
    """YAML takes `1.20` and `true` for a number and a yes; as a label they are texts."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Name = Annotated[str, AfterValidator(_name)]
Quantity = Annotated[str, PlainValidator(_quantity)]
Text = Annotated[str, BeforeValidator(_text)]
Names = Annotated[
    tuple[Pattern, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
]
"""One name or a list of names; each may have wildcards."""


class Reference(NamedTuple):
    """Objects by kind, namespace and name: `Deployment/shop/web`, `Node/worker-1`, `Pod/shop/web-*`."""

    kind: str
    """With its group where the kind alone is not enough: `Gadget.example.com`."""
    namespace: str
    """Empty for objects that are in none."""
    name: str
    """May have wildcards."""

    def __str__(self) -> str:
        return "/".join(part for part in self if part)

    def names_one(self) -> bool:
        return not set(self.name) & set("*?[")

    def fits(self, namespace: str, name: str) -> bool:
        return fnmatchcase(name, self.name) and fnmatchcase(namespace, self.namespace)


def _reference(value: object) -> Reference:
    if isinstance(value, Reference):
        return value
    parts = value.split("/") if isinstance(value, str) else []
    if len(parts) not in (2, 3) or not all(parts):
        raise ValueError("must be Kind/name or Kind/namespace/name, such as Node/worker-1 or Pod/shop/web-*")
    return Reference(parts[0], parts[1] if len(parts) == 3 else "", parts[-1])


ReferenceText = Annotated[Reference, PlainValidator(_reference)]


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("must be a Kubernetes object: a mapping")  # noqa: TRY004
    metadata = value.get("metadata")
    named = isinstance(metadata, dict) and (metadata.get("name") or metadata.get("generateName"))
    if not value.get("apiVersion") or not value.get("kind") or not named:
        raise ValueError("must have apiVersion, kind and metadata.name")
    return value


RawObject = Annotated[dict[str, Any], PlainValidator(_object)]
