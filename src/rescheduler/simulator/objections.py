"""Why a write is refused: the answers that need more than one line."""

from rescheduler.simulator.failures import Failure, already_exists, conflict, forbidden
from rescheduler.simulator.kinds import Kind
from rescheduler.simulator.options import Preconditions
from rescheduler.simulator.store import Record, key_of

__all__ = ["check_preconditions", "exists", "namespace_terminating", "unmet", "version_missing"]


def check_preconditions(kind: Kind, record: Record, wanted: Preconditions) -> None:
    if wanted.uid is not None and wanted.uid != record.uid:
        why = f"UID in precondition: {wanted.uid}, UID in object meta: {record.uid}"
    elif wanted.resource_version is not None and wanted.resource_version != str(record.version):
        why = (
            f"ResourceVersion in precondition: {wanted.resource_version}, "
            f"ResourceVersion in object meta: {record.version}"
        )
    else:
        return
    raise unmet(kind, record.namespace, record.name, why)


def unmet(kind: Kind, namespace: str, name: str, why: str) -> Failure:
    """A precondition that does not hold, as etcd's side of the real server words it."""
    group = kind.group if kind.custom else ""
    path = "/".join(filter(None, ("/registry", group, kind.plural, key_of(namespace, name))))
    return conflict(
        kind,
        name,
        f"StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: {why}",
    )


def exists(kind: Kind, existing: Record, *, generated: bool) -> Failure:
    if generated:
        return Failure(
            409,
            "AlreadyExists",
            f'{kind.resource} "{existing.name}" already exists, the server was not able to generate '
            "a unique name for the object",
            details={"name": existing.name, "kind": kind.plural, "retryAfterSeconds": 1},
        )
    failure = already_exists(kind, existing.name)
    if existing.deleting:
        failure.message = f"object is being deleted: {failure.message}"
    return failure


def version_missing(kind: Kind, name: str) -> Failure:
    message = "Invalid value: 0: must be specified for an update"
    details = {
        "name": name,
        "kind": kind.plural,
        "causes": [{"reason": "FieldValueInvalid", "message": message, "field": "metadata.resourceVersion"}],
    }
    if kind.group:
        details["group"] = kind.group
    return Failure(
        422,
        "Invalid",
        f'{kind.resource} "{name}" is invalid: metadata.resourceVersion: {message}',
        details=details,
    )


def namespace_terminating(kind: Kind, name: str, namespace: str) -> Failure:
    failure = forbidden(
        kind, name, f"unable to create new content in namespace {namespace} because it is being terminated"
    )
    failure.details = {
        **(failure.details or {}),
        "causes": [
            {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
        ],
    }
    return failure
