"""Options and preconditions of writes, and the errors about them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from kubesim.apiserver.api_messages import ServerRequest
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.object_store import StoredObject, key_of
from kubesim.apiserver.status_errors import StatusError, already_exists, conflict, forbidden

__all__ = [
    "Preconditions",
    "WriteOptions",
    "check_preconditions",
    "exists",
    "namespace_terminating",
    "unmet",
    "version_missing",
]


class WriteOptions(msgspec.Struct, frozen=True):
    dry_run: bool = False
    manager: str = "unknown"
    """The recorded owner of the changed fields."""
    named_manager: str = ""
    """The field manager that the request named, if any."""
    force: bool = False
    """Whether a server-side apply takes over fields of other owners."""
    applies: bool = False
    """Whether this is a server-side apply, which records ownership itself."""
    field_validation: str = "Warn"
    """The treatment of unknown fields: `Ignore`, `Warn` or `Strict`."""
    user: str = "system:admin"
    """The user that webhooks see."""
    warnings: list[str] = msgspec.field(default_factory=list)
    """Warnings of webhooks for the client, added during the request."""
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")

    @classmethod
    def parse(cls, request: ServerRequest, *, kind: str = "CreateOptions") -> "WriteOptions":
        asked = request.query.get("dryRun", "")
        validation = request.query.get("fieldValidation", "")
        if asked not in {"", "All"}:
            raise _unsupported(kind, "dryRun", f'["{asked}"]', '"All"')
        if validation not in {"", "Ignore", "Warn", "Strict"}:
            raise _unsupported(kind, "fieldValidation", f'"{validation}"', '"", "Ignore", "Strict", "Warn"')
        program = request.headers.get("user-agent", "unknown").partition("/")[0]
        return cls(
            dry_run=asked == "All",
            manager=request.query.get("fieldManager") or program,
            named_manager=request.query.get("fieldManager", ""),
            force=request.has_flag("force"),
            field_validation=validation or "Warn",
            user=request.headers.get("impersonate-user") or "system:admin",
        )


def _unsupported(kind: str, field: str, value: str, supported: str) -> StatusError:
    message = f"Unsupported value: {value}: supported values: {supported}"
    return StatusError(
        422,
        "Invalid",
        f'{kind}.meta.k8s.io "" is invalid: {field}: {message}',
        details={
            "group": "meta.k8s.io",
            "kind": kind,
            "causes": [{"reason": "FieldValueNotSupported", "message": message, "field": field}],
        },
    )


class Preconditions(msgspec.Struct, frozen=True):
    uid: str | None = None
    resource_version: str | None = None

    @classmethod
    def parse(cls, content: Mapping[str, Any] | None) -> "Preconditions":
        content = content or {}
        return cls(content.get("uid") or None, content.get("resourceVersion") or None)


def check_preconditions(kind: ResourceKind, record: StoredObject, wanted: Preconditions) -> None:
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


def unmet(kind: ResourceKind, namespace: str, name: str, why: str) -> StatusError:
    """Return the error of an unmet precondition, as the real server's storage layer words it."""
    group = kind.group if kind.custom else ""
    path = "/".join(filter(None, ("/registry", group, kind.plural, key_of(namespace, name))))
    return conflict(
        kind,
        name,
        f"StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: {why}",
    )


def exists(kind: ResourceKind, existing: StoredObject, *, generated: bool) -> StatusError:
    if generated:
        return StatusError(
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


def version_missing(kind: ResourceKind, name: str) -> StatusError:
    message = "Invalid value: 0: must be specified for an update"
    details = {
        "name": name,
        "kind": kind.plural,
        "causes": [{"reason": "FieldValueInvalid", "message": message, "field": "metadata.resourceVersion"}],
    }
    if kind.group:
        details["group"] = kind.group
    return StatusError(
        422,
        "Invalid",
        f'{kind.resource} "{name}" is invalid: metadata.resourceVersion: {message}',
        details=details,
    )


def namespace_terminating(kind: ResourceKind, name: str, namespace: str) -> StatusError:
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
