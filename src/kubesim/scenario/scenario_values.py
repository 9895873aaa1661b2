"""Values in all parts of a scenario: names, quantities, labels, references, API faults and extenders."""

import math
import re
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    PlainValidator,
    model_validator,
)

from kubesim.apiserver.fault_injection import FaultKind, InjectedFault
from kubesim.behaviour.behaviour_rules import BehaviourModel
from kubesim.behaviour.usage_patterns import NOTHING, Duration, Pattern, PositiveDuration
from kubevalues.quantity import QuantityError, parse_quantity

__all__ = [
    "Name",
    "Names",
    "ObjectReference",
    "Quantity",
    "RawObject",
    "ReferenceText",
    "ScenarioExtender",
    "ScenarioFault",
    "ScenarioModel",
    "ScheduledFault",
    "Text",
]


class ScenarioModel(BaseModel):
    """A map in the file; unknown fields are rejected."""

    model_config = BehaviourModel.model_config


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
        raise ValueError("must be a name of lower-case letters, digits, - and ., such as worker-1")
    return value


def _text(value: object) -> object:
    """Return a label value as text: YAML reads `1.20` as a number and `true` as a boolean."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Name = Annotated[str, AfterValidator(_name)]
Quantity = Annotated[str, PlainValidator(_quantity)]
Text = Annotated[str, BeforeValidator(_text)]
Names = Annotated[
    tuple[Pattern, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
]
"""One name or a list of names, with wildcards."""


class ObjectReference(NamedTuple):
    """Objects by kind, namespace and name: `Deployment/shop/web`, `Node/worker-1`, `Pod/shop/web-*`."""

    kind: str
    """With its group where the kind alone is not enough: `Gadget.example.com`."""
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str
    """May have wildcards."""

    def __str__(self) -> str:
        return "/".join(part for part in self if part)

    def names_one(self) -> bool:
        return not set(self.name) & set("*?[")

    def fits(self, namespace: str, name: str) -> bool:
        return fnmatchcase(name, self.name) and fnmatchcase(namespace, self.namespace)


def _reference(value: object) -> ObjectReference:
    if isinstance(value, ObjectReference):
        return value
    parts = value.split("/") if isinstance(value, str) else []
    if len(parts) not in (2, 3) or not all(parts):
        raise ValueError("must be Kind/name or Kind/namespace/name, such as Node/worker-1 or Pod/shop/web-*")
    return ObjectReference(parts[0], parts[1] if len(parts) == 3 else "", parts[-1])


ReferenceText = Annotated[ObjectReference, PlainValidator(_reference)]


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("must be a Kubernetes object: a mapping")  # noqa: TRY004
    metadata = value.get("metadata")
    named = isinstance(metadata, dict) and (metadata.get("name") or metadata.get("generateName"))
    if not value.get("apiVersion") or not value.get("kind") or not named:
        raise ValueError("must have apiVersion, kind and metadata.name")
    return value


RawObject = Annotated[dict[str, Any], PlainValidator(_object)]

Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]


class ScenarioFault(ScenarioModel):
    """Applies to the requests that match all its fields; fields that are not given match everything."""

    kind: FaultKind
    """`drop-watches` and `compact` take effect immediately, all others apply to requests."""
    verbs: tuple[Verb, ...] = ()
    """Not given: those to which the fault can apply."""
    resource: Pattern = "*"
    """`pods`, `deployments.apps`, `pods/eviction`."""
    namespace: Pattern = "*"
    name: Pattern = "*"
    times: int | None = Field(default=None, ge=1)
    """How many requests it applies to; not given: all, until it ends."""
    lasts: PositiveDuration | None = None
    """Ends after this long; not given: never."""
    probability: float = Field(default=1.0, gt=0, le=1)
    retry_after: PositiveDuration | None = None
    """For `too-many-requests` and `unavailable`: the Retry-After of the response, in whole seconds."""
    delay: Duration = timedelta(seconds=1)
    """For `slow`."""

    @property
    def fault(self) -> InjectedFault:
        wait = self.retry_after
        return InjectedFault(
            kind=self.kind,
            verbs=self.verbs,
            resource=self.resource,
            namespace=self.namespace,
            name=self.name,
            times=self.times,
            probability=self.probability,
            retry_after_s=None if wait is None else math.ceil(wait.total_seconds()),
            delay_s=self.delay.total_seconds(),
        )


class ScheduledFault(ScenarioFault):
    at: Duration = NOTHING
    """When it starts."""


def _url(value: str) -> str:
    found = urlsplit(value)
    if found.scheme not in ("http", "https") or not found.hostname:
        raise ValueError("must be a URL such as http://127.0.0.1:8080/scheduler")
    return value


class ScenarioExtender(ScenarioModel):
    """A scheduler extender, as in KubeSchedulerConfiguration."""

    url: Annotated[str, AfterValidator(_url)]
    """The URL to which verbs are appended."""
    filter: str = ""
    """The verb that filters nodes; not given: it does not filter."""
    prioritize: str = ""
    """The verb that scores nodes."""
    weight: int = Field(default=1, ge=1)
    ignorable: bool = False
    """If true, pods are scheduled without it while it fails; otherwise they wait."""
    names_only: bool = True
    """Send node names (`nodeCacheCapable`) instead of whole nodes."""
    managed_resources: tuple[str, ...] = ()
    """Called only for pods that request one of these resources."""
    timeout: PositiveDuration = timedelta(seconds=5)

    @model_validator(mode="after")
    def _check_verbs(self) -> "ScenarioExtender":
        if not self.filter and not self.prioritize:
            raise ValueError("must have `filter` or `prioritize`")
        return self
