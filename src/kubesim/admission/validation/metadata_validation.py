"""Validation of metadata, labels, selectors, and of numbers or percentages."""

from collections.abc import Iterable, Iterator, Mapping

from kubesim.admission import field_errors, name_syntax
from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.status_errors import FieldError
from kubevalues.label_selectors import Selector, SelectorError
from kubevalues.selector_parsers import selector_from_object

__all__ = [
    "as_number",
    "check_annotations",
    "check_at_most_all",
    "check_count_or_percent",
    "check_label_key",
    "check_labels",
    "check_metadata",
    "check_not_negative",
    "check_positive",
    "check_selector",
    "selector_of",
]


def check_label_key(key: str, path: str) -> Iterator[FieldError]:
    for complaint in name_syntax.qualified_name(key):
        yield field_errors.invalid(path, key, complaint)


def check_labels(labels: Mapping[str, str], path: str) -> Iterator[FieldError]:
    for key, value in labels.items():
        yield from check_label_key(key, path)
        for complaint in name_syntax.label_value(value):
            yield field_errors.invalid(path, value, complaint)


def check_selector(selector: Object, path: str) -> Iterator[FieldError]:
    yield from check_labels(selector.get("matchLabels", {}), f"{path}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions", ())):
        yield from _check_requirement(requirement, f"{path}.matchExpressions[{index}]")


def _check_requirement(requirement: Object, path: str) -> Iterator[FieldError]:
    operator, values = requirement.get("operator", ""), requirement.get("values", [])
    if operator in ("In", "NotIn"):
        if not values:
            yield field_errors.required(
                f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"
            )
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield field_errors.forbidden(f"{path}.values", detail)
    else:
        yield field_errors.invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from check_label_key(requirement.get("key", ""), f"{path}.key")
    for index, value in enumerate(values):
        for complaint in name_syntax.label_value(value):
            yield field_errors.invalid(f"{path}.values[{index}]", value, complaint)


def selector_of(selector: Object) -> Selector | None:
    """Return the parsed selector, or None if it is invalid."""
    try:
        return selector_from_object(selector)
    except SelectorError:
        return None


_MOST_ANNOTATION_BYTES = 256 * 1024
_RBAC = "rbac.authorization.k8s.io"
_LABEL_NAMED = {"Namespace", "StatefulSet.apps"}
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def _naming_rule(kind: ResourceKind) -> name_syntax.NameRule:
    if kind.name == "Service" and not kind.group:
        return name_syntax.dns_label  # 1.37 no longer asks for a leading letter
    if kind.group == _RBAC:
        return name_syntax.path_segment
    full_name = f"{kind.name}.{kind.group}" if kind.group else kind.name
    return name_syntax.dns_label if full_name in _LABEL_NAMED else name_syntax.dns_subdomain


def check_metadata(kind: ResourceKind, metadata: Object, *, creating: bool) -> Iterator[FieldError]:
    if creating:
        yield from _check_name(kind, metadata)
    yield from check_labels(metadata.get("labels", {}), "metadata.labels")
    yield from check_annotations(metadata.get("annotations", {}), "metadata.annotations")
    yield from _check_owners(metadata.get("ownerReferences", []))
    yield from _check_finalizers(metadata.get("finalizers", []))
    if creating and not kind.custom:
        yield from _check_standard_finalizers(metadata.get("finalizers", []))


def _check_name(kind: ResourceKind, metadata: Object) -> Iterator[FieldError]:
    rule = _naming_rule(kind)
    if prefix := metadata.get("generateName", ""):
        # A prefix may end in a hyphen, because five characters follow.
        for complaint in rule(f"{prefix[:-1]}a" if prefix.endswith("-") else prefix):
            yield field_errors.invalid("metadata.generateName", prefix, complaint)
    if not metadata.get("name"):
        yield field_errors.required("metadata.name", "name or generateName is required")
        return
    for complaint in rule(metadata["name"]):
        yield field_errors.invalid("metadata.name", metadata["name"], complaint)


def check_annotations(annotations: dict[str, str], path: str) -> Iterator[FieldError]:
    for key in annotations:
        for complaint in name_syntax.qualified_name(key.lower()):
            yield field_errors.invalid(path, key, complaint)
    if (
        sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        > _MOST_ANNOTATION_BYTES
    ):
        yield field_errors.too_long(path, _MOST_ANNOTATION_BYTES)


def _check_owners(owners: list[Object]) -> Iterator[FieldError]:
    path = "metadata.ownerReferences"
    controller = ""
    for index, owner in enumerate(owners):
        yield from _check_owner(owner, f"{path}[{index}]")
        if owner.get("controller"):
            name = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                yield field_errors.invalid(
                    path,
                    owners,
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {name}",
                )
            controller = controller or name


def _check_owner(owner: Object, path: str) -> Iterator[FieldError]:
    api_version = owner.get("apiVersion", "")
    if not api_version:
        yield field_errors.required(f"{path}.apiVersion", "must not be empty")
    elif api_version.count("/") > 1 or api_version.endswith("/"):
        yield field_errors.invalid(
            f"{path}.apiVersion", api_version, "must be <group>/<version> or <version>"
        )
    for field in ("kind", "name", "uid"):
        if not owner.get(field):
            yield field_errors.required(f"{path}.{field}", "must not be empty")
    if api_version == "v1" and owner.get("kind") == "Event":
        yield field_errors.invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner")


def _check_finalizers(finalizers: list[str]) -> Iterator[FieldError]:
    path = "metadata.finalizers"
    for finalizer in finalizers:
        for complaint in name_syntax.qualified_name(finalizer):
            yield field_errors.invalid(path, finalizer, complaint)
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        yield field_errors.invalid(path, finalizers, detail)


def _check_standard_finalizers(finalizers: list[str]) -> Iterator[FieldError]:
    for index, finalizer in enumerate(finalizers):
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield field_errors.invalid(f"metadata.finalizers[{index}]", finalizer, detail)


NOT_NEGATIVE = "must be greater than or equal to 0"


def check_not_negative(holder: Object, fields: Iterable[str], path: str) -> Iterator[FieldError]:
    for field in fields:
        if holder.get(field, 0) < 0:
            yield field_errors.invalid(f"{path}.{field}", holder[field], NOT_NEGATIVE)


def check_positive(number: int, path: str) -> Iterator[FieldError]:
    if number <= 0:
        yield field_errors.invalid(path, number, "must be greater than zero")


def check_count_or_percent(value: int | str, path: str) -> Iterator[FieldError]:
    if isinstance(value, str):
        for complaint in name_syntax.percentage(value):
            yield field_errors.invalid(path, value, complaint)
    elif value < 0:
        yield field_errors.invalid(path, value, NOT_NEGATIVE)


def as_number(value: int | str) -> int:
    """Return the number, or that of a percentage; 0 for any other text."""
    if isinstance(value, int):
        return value
    return int(value[:-1]) if not name_syntax.percentage(value) else 0


def check_at_most_all(value: int | str, path: str) -> Iterator[FieldError]:
    if isinstance(value, str) and as_number(value) > 100:
        yield field_errors.invalid(path, value, "must not be greater than 100%")
