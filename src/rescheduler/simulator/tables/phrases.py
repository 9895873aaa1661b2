"""Parts of objects that are put into words in the same way for many kinds."""

from collections.abc import Iterable, Mapping, Sequence

from rescheduler.simulator.exchange import Object

__all__ = [
    "NONE",
    "UNSET",
    "condition_status",
    "container_images",
    "container_names",
    "first_few",
    "labels",
    "name",
    "selector",
    "spec",
    "status",
]

NONE = "<none>"
UNSET = "<unset>"


def name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def spec(obj: Object) -> Object:
    return obj.get("spec") or {}


def status(obj: Object) -> Object:
    return obj.get("status") or {}


def labels(pairs: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((pairs or {}).items())) or NONE


def selector(label_selector: Object | None) -> str:
    """In the notation that `kubectl get -l` takes, terms in the order of their keys."""
    found = label_selector or {}
    terms = [(key, f"{key}={value}") for key, value in (found.get("matchLabels") or {}).items()]
    terms += [(term["key"], _expression(term)) for term in found.get("matchExpressions") or ()]
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0])) or NONE


def _expression(term: Object) -> str:
    key, values = term["key"], ",".join(sorted(term.get("values") or ()))
    match term["operator"]:
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "Exists":
            return str(key)
        case _:
            return f"!{key}"


def container_names(pod_spec: Object) -> str:
    return ",".join(container.get("name", "") for container in pod_spec.get("containers") or ())


def container_images(pod_spec: Object) -> str:
    return ",".join(container.get("image", "") for container in pod_spec.get("containers") or ())


def condition_status(conditions: Iterable[Object] | None, condition_type: str) -> str | None:
    """`True`, `False`, `Unknown`, or None where nothing is said of it."""
    return next((c.get("status") for c in conditions or () if c.get("type") == condition_type), None)


def first_few(found: Sequence[str], most: int, *, separator: str = ",") -> str:
    shown = separator.join(found[:most])
    return f"{shown} + {len(found) - most} more..." if len(found) > most else shown
