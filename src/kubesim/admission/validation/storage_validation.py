"""Validation of persistent volumes, claims, storage classes, and CSI objects."""

from collections.abc import Iterator

from kubesim.admission import field_errors, name_syntax
from kubesim.admission.validation.metadata_validation import check_selector
from kubesim.admission.validation.pod_update_validation import without_empty
from kubesim.admission.validation.scheduling_validation import check_node_selector
from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.status_errors import FieldError
from kubevalues.quantity import parse_quantity

__all__ = ["check_capacity", "check_claim", "check_claim_spec", "check_storage_class", "check_volume"]

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_FIXED = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
_NOT_SOURCES = (
    "capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName",
    "mountOptions", "volumeMode", "nodeAffinity", "volumeAttributesClassName",
)  # fmt: skip


def check_claim(new: Object, old: Object | None) -> Iterator[FieldError]:
    yield from check_claim_spec(new["spec"], "spec")
    if old is None:
        return
    spec, before = dict(new["spec"]), dict(old["spec"])
    if not before.get("volumeName"):
        before["volumeName"] = spec.get("volumeName")
    if not before.get("storageClassName"):
        before["storageClassName"] = spec.get("storageClassName")
    if new.get("status", {}).get("phase") == "Bound":
        spec["resources"] = before.get("resources", {})
        spec.pop("volumeAttributesClassName", None)
        before.pop("volumeAttributesClassName", None)
    if without_empty(spec) != without_empty(before):
        yield field_errors.forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for "
            "bound claims",
        )
    capacity = old.get("status", {}).get("capacity", {}).get("storage", "0")
    if _requested(new) < _requested(old) and parse_quantity(_requested_text(new)) <= parse_quantity(capacity):
        detail = "field can not be less than status.capacity"
        yield field_errors.forbidden("spec.resources.requests.storage", detail)


def _requested_text(claim: Object) -> str:
    return str(claim["spec"].get("resources", {}).get("requests", {}).get("storage", "0"))


def _requested(claim: Object) -> int:
    return parse_quantity(_requested_text(claim)).nanos


def check_claim_spec(spec: Object, path: str) -> Iterator[FieldError]:
    modes = spec.get("accessModes", [])
    if not modes:
        yield field_errors.required(f"{path}.accessModes", "at least 1 access mode is required")
    yield from check_selector(spec.get("selector", {}), f"{path}.selector")
    yield from _check_access_modes(modes, path)
    storage = spec.get("resources", {}).get("requests", {}).get("storage")
    if storage is None:
        yield field_errors.required(f"{path}.resources[storage]")
    elif parse_quantity(storage).nanos <= 0:
        yield field_errors.invalid(f"{path}.resources[storage]", storage, "must be greater than zero")
    for complaint in (
        name_syntax.dns_subdomain(spec["storageClassName"]) if spec.get("storageClassName") else ()
    ):
        yield field_errors.invalid(f"{path}.storageClassName", spec["storageClassName"], complaint)
    if spec.get("volumeMode", "Filesystem") not in _VOLUME_MODES:
        yield field_errors.not_supported(f"{path}.volumeMode", spec["volumeMode"], _VOLUME_MODES)


def _check_access_modes(modes: list[str], path: str) -> Iterator[FieldError]:
    for mode in modes:
        if mode not in _ACCESS_MODES:
            yield field_errors.not_supported(f"{path}.accessModes", mode, _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        detail = "may not use ReadWriteOncePod with other access modes"
        yield field_errors.forbidden(f"{path}.accessModes", detail)


def check_volume(new: Object, old: Object | None) -> Iterator[FieldError]:
    spec = new["spec"]
    if not spec.get("accessModes"):
        yield field_errors.required("spec.accessModes")
    yield from _check_access_modes(spec.get("accessModes", []), "spec")
    if not spec.get("capacity"):
        yield field_errors.required("spec.capacity")
    if set(spec.get("capacity", ())) != {"storage"}:
        yield field_errors.not_supported("spec.capacity", spec.get("capacity"), ["storage"])
    elif parse_quantity(spec["capacity"]["storage"]).nanos <= 0:
        here = "spec.capacity[storage]"
        yield field_errors.invalid(here, spec["capacity"]["storage"], "must be greater than zero")
    policy = spec.get("persistentVolumeReclaimPolicy", "Retain")
    if policy not in _RECLAIM_POLICIES:
        yield field_errors.not_supported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM_POLICIES)
    if "required" in spec.get("nodeAffinity", {}):
        yield from check_node_selector(spec["nodeAffinity"]["required"], "spec.nodeAffinity.required")
    sources = [field for field in spec if field not in _NOT_SOURCES]
    if not sources:
        yield field_errors.required("spec", "must specify a volume type")
    for source in sources[1:]:
        yield field_errors.forbidden(f"spec.{source}", "may not specify more than 1 volume type")
    yield from _check_source_kept(spec, old, sources)


def _check_source_kept(spec: Object, old: Object | None, sources: list[str]) -> Iterator[FieldError]:
    before = (old or {}).get("spec")
    if before is not None and any(spec.get(field) != before.get(field) for field in sources):
        yield field_errors.forbidden(
            "spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation"
        )


def check_storage_class(new: Object, old: Object | None) -> Iterator[FieldError]:
    if not new.get("provisioner"):
        yield field_errors.required("provisioner")
    if new.get("reclaimPolicy", "Delete") not in ("Delete", "Retain"):
        yield field_errors.not_supported("reclaimPolicy", new["reclaimPolicy"], ("Delete", "Retain"))
    if new.get("volumeBindingMode", "Immediate") not in _BINDING_MODES:
        yield field_errors.not_supported("volumeBindingMode", new["volumeBindingMode"], _BINDING_MODES)
    for field in _FIXED if old is not None else ():
        if new.get(field) != (old or {}).get(field):
            yield field_errors.forbidden(field, f"updates to {field} are forbidden.")


def check_capacity(new: Object, old: Object | None) -> Iterator[FieldError]:
    """Check a CSIStorageCapacity."""
    class_name = new.get("storageClassName", "")
    yield from check_selector(new.get("nodeTopology", {}), "nodeTopology")
    for complaint in name_syntax.dns_subdomain(class_name):
        yield field_errors.invalid("storageClassName", class_name, complaint)
    if parse_quantity(str(new.get("capacity", "0"))).nanos < 0:
        yield field_errors.invalid("capacity", new["capacity"], "must be greater than or equal to 0")
    if old is None:
        return
    if new.get("nodeTopology") != old.get("nodeTopology"):
        yield field_errors.immutable("nodeTopology", new.get("nodeTopology"))
    if class_name != old.get("storageClassName", ""):
        yield field_errors.immutable("storageClassName", class_name)
