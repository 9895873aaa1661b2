"""Rules for the metadata of any object: its name, labels, annotations, owners, finalizers."""

from collections.abc import Iterator

from rescheduler.simulator.admission import causes, names
from rescheduler.simulator.admission.validation.labels import check_labels
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Cause
from rescheduler.simulator.kinds import Kind

__all__ = ["check_annotations", "check_metadata"]

_MOST_ANNOTATION_BYTES = 256 * 1024
_RBAC = "rbac.authorization.k8s.io"
_LABEL_NAMED = {"Namespace", "StatefulSet.apps"}
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def _naming_rule(kind: Kind) -> names.Rule:
    if kind.name == "Service" and not kind.group:
        return names.dns_label  # 1.37 no longer asks for a leading letter
    if kind.group == _RBAC:
        return names.path_segment
    full_name = f"{kind.name}.{kind.group}" if kind.group else kind.name
    return names.dns_label if full_name in _LABEL_NAMED else names.dns_subdomain


def check_metadata(kind: Kind, metadata: Object, *, creating: bool) -> Iterator[Cause]:
    if creating:
        yield from _check_name(kind, metadata)
    yield from check_labels(metadata.get("labels", {}), "metadata.labels")
    yield from check_annotations(metadata.get("annotations", {}), "metadata.annotations")
    yield from _check_owners(metadata.get("ownerReferences", []))
    yield from _check_finalizers(metadata.get("finalizers", []))
    if creating and not kind.custom:
        yield from _check_standard_finalizers(metadata.get("finalizers", []))


def _check_name(kind: Kind, metadata: Object) -> Iterator[Cause]:
    rule = _naming_rule(kind)
    if prefix := metadata.get("generateName", ""):
        # A prefix may end in what a name may not end in: five characters follow.
        for complaint in rule(f"{prefix[:-1]}a" if prefix.endswith("-") else prefix):
            yield causes.invalid("metadata.generateName", prefix, complaint)
    if not metadata.get("name"):
        yield causes.required("metadata.name", "name or generateName is required")
        return
    for complaint in rule(metadata["name"]):
        yield causes.invalid("metadata.name", metadata["name"], complaint)


def check_annotations(annotations: dict[str, str], path: str) -> Iterator[Cause]:
    for key in annotations:
        for complaint in names.qualified_name(key.lower()):
            yield causes.invalid(path, key, complaint)
    if (
        sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        > _MOST_ANNOTATION_BYTES
    ):
        yield causes.too_long(path, _MOST_ANNOTATION_BYTES)


def _check_owners(owners: list[Object]) -> Iterator[Cause]:
    path = "metadata.ownerReferences"
    controller = ""
    for index, owner in enumerate(owners):
        yield from _check_owner(owner, f"{path}[{index}]")
        if owner.get("controller"):
            name = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                yield causes.invalid(
                    path,
                    owners,
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {name}",
                )
            controller = controller or name


def _check_owner(owner: Object, path: str) -> Iterator[Cause]:
    api_version = owner.get("apiVersion", "")
    if not api_version:
        yield causes.required(f"{path}.apiVersion", "must not be empty")
    elif api_version.count("/") > 1 or api_version.endswith("/"):
        yield causes.invalid(f"{path}.apiVersion", api_version, "must be <group>/<version> or <version>")
    for field in ("kind", "name", "uid"):
        if not owner.get(field):
            yield causes.required(f"{path}.{field}", "must not be empty")
    if api_version == "v1" and owner.get("kind") == "Event":
        yield causes.invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner")


def _check_finalizers(finalizers: list[str]) -> Iterator[Cause]:
    path = "metadata.finalizers"
    for finalizer in finalizers:
        for complaint in names.qualified_name(finalizer):
            yield causes.invalid(path, finalizer, complaint)
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        yield causes.invalid(path, finalizers, detail)


def _check_standard_finalizers(finalizers: list[str]) -> Iterator[Cause]:
    for index, finalizer in enumerate(finalizers):
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield causes.invalid(f"metadata.finalizers[{index}]", finalizer, detail)
