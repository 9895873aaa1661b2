"""The fields that field selectors can use, by kind."""

from collections.abc import Callable

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.status_errors import bad_request
from kubevalues import FieldSelector, SelectorError, parse_field_selector

__all__ = ["field_selector", "selectable"]

_NAMES = frozenset({"metadata.name", "metadata.namespace"})

_FIELDS: dict[tuple[str, str], dict[str, Callable[[Object], object]]] = {}


def _at(*path: str, default: str = "") -> Callable[[Object], object]:
    def read(content: Object) -> object:
        value: object = content
        for step in path:
            if not isinstance(value, dict):
                return default
            value = value.get(step)
        return default if value is None else value

    return read


def _fields(group: str, kind: str, *paths: str, **defaults: str) -> None:
    _FIELDS[group, kind] = {
        path: _at(*path.split("."), default=defaults.get(path.rpartition(".")[2], "")) for path in paths
    }


_fields("", "Pod", "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName",
        hostNetwork="false")  # fmt: skip
_fields("", "Node", "spec.unschedulable", unschedulable="false")
_fields("", "Namespace", "status.phase")
_fields("", "Secret", "type")
_fields("", "Service", "spec.clusterIP", "spec.type")
_fields("", "ReplicationController", "status.replicas", replicas="0")
_fields("batch", "Job", "status.successful")
_fields("apps", "ReplicaSet", "status.replicas", replicas="0")
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_fields(
    "", "Event", "reason", "reportingComponent", "type", *(f"involvedObject.{part}" for part in _INVOLVED)
)
_FIELDS["", "Event"]["source"] = _at("source", "component")
_FIELDS["batch", "Job"]["status.successful"] = _at("status", "succeeded", default="0")
# Events are stored in the core group's form, and the newer group asks for them by its own names.
_FIELDS["events.k8s.io", "Event"] = _FIELDS["", "Event"]
_RENAMED = {
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
}
_PLAIN_REFUSAL = frozenset(
    {"Pod", "Node", "Namespace", "Secret", "Service", "ReplicationController", "Event"}
)


def selectable(kind: ResourceKind, content: Object) -> dict[str, str]:
    """Return the values of the fields that selectors of this kind can use."""
    metadata = content["metadata"]
    values = {"metadata.name": metadata["name"], "metadata.namespace": metadata.get("namespace", "")}
    for path, read in _FIELDS.get((kind.group, kind.name), {}).items():
        value = read(content)
        values[path] = str(value).lower() if isinstance(value, bool) else str(value)
    return values


def field_selector(kind: ResourceKind, text: str) -> FieldSelector:
    """Parse a field selector; raise `StatusError` for fields that this kind does not support."""
    try:
        parsed = parse_field_selector(text)
    except SelectorError as error:
        raise bad_request(f"invalid selector: '{text}'; {error}") from error
    return FieldSelector(tuple(term._replace(field=_supported(kind, term.field)) for term in parsed.terms))


def _supported(kind: ResourceKind, field: str) -> str:
    if kind.group == "events.k8s.io":
        head, dot, tail = field.partition(".")
        field = _RENAMED.get(head, head) + dot + tail
    elif field == "spec.host" and kind.name == "Pod":
        field = "spec.nodeName"
    known = _FIELDS.get((kind.group, kind.name), {})
    if field in known or (field in _NAMES and (kind.namespaced or field == "metadata.name")):
        return field
    if kind.name == "Job":
        raise bad_request(f'field label "{field}" not supported for Job')
    if kind.custom or kind.name in _PLAIN_REFUSAL:
        raise bad_request(f"field label not supported: {field}")
    raise bad_request(f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"')
