"""Answers of Prometheus' HTTP API to an instant query: bytes → an amount for each pod and node."""

from dataclasses import dataclass, field
from math import nan
from typing import NoReturn

import msgspec

from rescheduler.usage.readings import LARGEST_AMOUNT

__all__ = ["Amount", "NotAVector", "Vector", "read_vector"]


class NotAVector(Exception):  # noqa: N818 - named after what came instead
    """The answer has no amounts in it; the message says what it has."""


class Amount(msgspec.Struct, frozen=True, gc=False):
    value: float
    at_s: float


@dataclass(slots=True)
class Vector:
    """A series with `namespace` and `pod` is a pod's, one with `node` alone a node's, others are nobody's."""

    pods: dict[str, Amount] = field(default_factory=dict)
    nodes: dict[str, Amount] = field(default_factory=dict)
    odd: list[str] = field(default_factory=list)
    """Whose value is no amount: not a number, infinite, negative, a histogram."""
    warnings: tuple[str, ...] = ()
    """The server's own words: a part of its stores did not answer, and the like."""


class _Labels(msgspec.Struct, gc=False):
    namespace: str = ""
    pod: str = ""
    node: str = ""


class _Series(msgspec.Struct, gc=False):
    metric: _Labels
    value: tuple[float, str] | None = None


class _Data(msgspec.Struct, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _Answer(msgspec.Struct, rename="camel"):
    status: str
    data: _Data | None = None
    error_type: str = ""
    error: str = ""
    warnings: list[str] | None = None


_decode_answer = msgspec.json.Decoder(_Answer).decode
_decode_series = msgspec.json.Decoder(list[_Series]).decode


def read_vector(body: bytes) -> Vector:
    """Raises `NotAVector`."""
    try:
        answer = _decode_answer(body)
        if answer.status != "success" or answer.data is None:
            raise NotAVector(_reason(answer))
        if answer.data.result_type != "vector":
            raise NotAVector(f"it gives a {answer.data.result_type}, and one value per pod is needed")
        series = _decode_series(answer.data.result)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise NotAVector(f"the answer is none of Prometheus: {error}") from error
    vector = Vector(warnings=tuple(answer.warnings or ()))
    for each in series:
        _enter(each, vector)
    return vector


def _reason(answer: _Answer) -> str:
    return ": ".join(filter(None, (answer.error_type, answer.error))) or "it gives no reason"


def _enter(series: _Series, vector: Vector) -> None:
    labels = series.metric
    if labels.pod and labels.namespace:
        name, owners = f"{labels.namespace}/{labels.pod}", vector.pods
    elif labels.node and not labels.pod:
        name, owners = labels.node, vector.nodes
    else:
        return
    if name in owners:
        _ambiguous(name)
    at_s, text = series.value or (0.0, "")
    value = _number(text)
    if 0 <= value <= LARGEST_AMOUNT:
        owners[name] = Amount(value, at_s)
    else:
        vector.odd.append(f"{name} ({text or 'a histogram'})")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return nan


def _ambiguous(name: str) -> NoReturn:
    # To add them up would be right for containers and wrong for replicas: the query must say.
    raise NotAVector(f"it gives several values for {name}; aggregate them, as with sum by (namespace, pod)")
