"""Delete objects: immediately, after a grace period, or when the last finalizer is removed."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.object_store import ObjectStore, StoredObject
from kubesim.apiserver.status_errors import FieldError, StatusError, bad_request, not_found
from kubesim.apiserver.write_options import Preconditions
from kubesim.common_fields import format_timestamp
from kubesim.custom_resources.served_definitions import CLEANUP_FINALIZER
from kubesim.virtual_time import Clock

__all__ = ["DeleteOptions", "DeletionOutcome", "ObjectDeletion"]

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
_LONGEST_GRACE_S = 10**9
_JSON_NAMES = {"grace_s": "gracePeriodSeconds", "policy": "propagationPolicy", "orphan": "orphanDependents",
               "dry_run": "dryRun"}  # fmt: skip
_POLICIES = ("Foreground", "Background", "Orphan")


class DeleteOptions(msgspec.Struct, frozen=True):
    grace_s: int | None = None
    policy: str = ""
    """`Foreground`, `Background`, `Orphan`, or empty: the object's finalizers decide."""
    preconditions: Preconditions = Preconditions()
    dry_run: bool = False

    @classmethod
    def parse(cls, query: Mapping[str, str], body: Mapping[str, Any] | None) -> "DeleteOptions":
        """Read the options from the body, or from the query if the body has none."""
        options = _Body.read(body or {})
        grace = _seconds(query.get("gracePeriodSeconds")) if options.grace_s is None else options.grace_s
        policy = options.policy or query.get("propagationPolicy") or ""
        orphan = options.orphan
        if orphan is None and "orphanDependents" in query:
            orphan = query["orphanDependents"] == "true"
        if policy and orphan is not None:
            detail = "orphanDependents and deletionPropagation cannot be both set"
            raise _bad_policy("FieldValueInvalid", f'Invalid value: "{policy}": {detail}')
        if policy and policy not in _POLICIES:
            listed = ", ".join(f'"{known}"' for known in (*_POLICIES, "nil"))
            raise _bad_policy(
                "FieldValueNotSupported", f'Unsupported value: "{policy}": supported values: {listed}'
            )
        return cls(
            grace_s=None if grace is None else min(grace, _LONGEST_GRACE_S),
            policy=policy or {True: "Orphan", False: "Background", None: ""}[orphan],
            preconditions=Preconditions.parse(options.preconditions),
            dry_run="All" in (options.dry_run or ()) or query.get("dryRun") == "All",
        )


class _Body(msgspec.Struct, rename=_JSON_NAMES):
    """`DeleteOptions` in a request body; null counts as absent."""

    grace_s: int | None = None
    policy: str | None = None
    orphan: bool | None = None
    preconditions: dict[str, str | None] | None = None
    dry_run: list[str] | None = None

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "_Body":
        try:
            return msgspec.convert(content, cls)
        except msgspec.ValidationError as error:
            raise bad_request(f"DeleteOptions cannot be read: {error}") from error


def _seconds(text: str | None) -> int | None:
    try:
        return int(text) if text else None
    except ValueError as error:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from error


def _bad_policy(reason: str, message: str) -> StatusError:
    cause = FieldError("propagationPolicy", reason, message)
    return StatusError(
        422,
        "Invalid",
        f'DeleteOptions.meta.k8s.io "" is invalid: {cause.field}: {cause.message}',
        details={
            "group": "meta.k8s.io",
            "kind": "DeleteOptions",
            "causes": [{"reason": cause.reason, "message": cause.message, "field": cause.field}],
        },
    )


class DeletionOutcome(msgspec.Struct, frozen=True):
    raw: bytes
    """The last state of the object, or its current state if it still exists."""
    record: StoredObject
    gone: bool


class ObjectDeletion:
    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def delete(
        self, kind: ResourceKind, namespace: str, name: str, options: DeleteOptions
    ) -> DeletionOutcome:
        record = self._store.find(kind, namespace, name)
        if record is None:
            raise not_found(kind, name)
        self.check(kind, record, options.preconditions)
        content = record.object
        meta = content["metadata"]
        before = dict(meta)
        graceful = _shortened(meta, options, self._clock.now()) if record.deleting else None
        if record.deleting and _is_graceful(kind) and meta.get("deletionGracePeriodSeconds"):
            if not graceful:
                # It is already being deleted, with a grace period that is not longer.
                return DeletionOutcome(record.raw, record, gone=False)
        elif not record.deleting and _is_graceful(kind):
            _mark(meta, self._clock.now(), _grace_of(content, options))
            graceful = True
        _set_finalizers(kind, meta, options.policy)
        _keep_definition(kind, meta)
        if kind.name == "Namespace" and not kind.group:
            return self._terminate_namespace(kind, record, content, options)
        waits = bool(meta.get("finalizers"))
        if waits and not graceful:
            _mark(meta, self._clock.now(), 0)
        if waits or meta.get("deletionGracePeriodSeconds"):
            return self._keep(kind, record, content, before, options)
        if options.dry_run:
            return DeletionOutcome(record.raw, record, gone=True)
        if graceful:  # watchers see a terminating pod before it is deleted
            record = self._store.put(kind, content, deletes=True)
        change = self._store.remove(kind, record)
        return DeletionOutcome(record.shown_at(change.version), record, gone=True)

    @staticmethod
    def check(kind: ResourceKind, record: StoredObject, wanted: Preconditions) -> None:
        _check(kind, record, wanted)

    def _keep(
        self,
        kind: ResourceKind,
        record: StoredObject,
        content: Object,
        before: Object,
        options: DeleteOptions,
    ) -> DeletionOutcome:
        if not options.dry_run and content["metadata"] != before:
            record = self._store.put(kind, content, deletes=True)
        return DeletionOutcome(record.raw, record, gone=False)

    def _terminate_namespace(
        self, kind: ResourceKind, record: StoredObject, content: Object, options: DeleteOptions
    ) -> DeletionOutcome:
        before = dict(content["metadata"])
        _mark_without_grace(content["metadata"], self._clock.now())
        content["status"] = {**content.get("status", {}), "phase": "Terminating"}
        if content.get("spec", {}).get("finalizers") or content["metadata"].get("finalizers"):
            return self._keep(kind, record, content, {} if not record.deleting else before, options)
        if not options.dry_run:
            self._store.remove(kind, record)
        return DeletionOutcome(record.raw, record, gone=True)

    def delete_all(
        self, kind: ResourceKind, records: Iterable[StoredObject], options: DeleteOptions
    ) -> list[StoredObject]:
        deleted = []
        for record in records:
            try:
                self.delete(kind, record.namespace, record.name, options)
            except StatusError as failure:
                if failure.code != 404:
                    raise
            deleted.append(record)
        return deleted


def _is_graceful(kind: ResourceKind) -> bool:
    return kind.name == "Pod" and not kind.group


def _check(kind: ResourceKind, record: StoredObject, wanted: Preconditions) -> None:
    if wanted.uid is not None and wanted.uid != record.uid:
        why = (
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({record.uid}). "
            "The object might have been deleted and then recreated"
        )
    elif wanted.resource_version is not None and wanted.resource_version != str(record.version):
        why = (
            f"the ResourceVersion in the precondition ({wanted.resource_version}) does not match "
            f"the ResourceVersion in record ({record.version}). The object might have been modified"
        )
    else:
        return
    # The real server names the kind here, where it names the resource everywhere else.
    shown = f"{kind.name}.{kind.group}" if kind.group else kind.name
    details = {"name": record.name, "group": kind.group, "kind": kind.name}
    if not kind.group:
        del details["group"]
    raise StatusError(
        409, "Conflict", f'Operation cannot be fulfilled on {shown} "{record.name}": {why}', details=details
    )


def _grace_of(pod: Object, options: DeleteOptions) -> int:
    spec = pod.get("spec", {})
    if not spec.get("nodeName") or pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
        return 0  # no kubelet runs it, so nothing has to stop
    grace = spec.get("terminationGracePeriodSeconds", 30) if options.grace_s is None else options.grace_s
    return 1 if grace < 0 else int(grace)


def _mark(meta: Object, now: datetime, grace_s: int) -> None:
    if "deletionTimestamp" not in meta and meta.get("generation"):
        meta["generation"] += 1
    due = now + timedelta(seconds=grace_s)
    if "deletionTimestamp" not in meta or _moment(meta["deletionTimestamp"]) > due:
        meta["deletionTimestamp"] = format_timestamp(due)
    meta["deletionGracePeriodSeconds"] = grace_s


def _mark_without_grace(meta: Object, now: datetime) -> None:
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = format_timestamp(now)


def _shortened(meta: Object, options: DeleteOptions, now: datetime) -> bool:
    """Shorten the grace period of a terminating pod; it is never extended."""
    old = meta.get("deletionGracePeriodSeconds")
    if not old or options.grace_s is None:
        return False
    grace = 1 if options.grace_s < 0 else options.grace_s
    if grace >= old:
        return False
    due = _moment(meta["deletionTimestamp"]) - timedelta(seconds=old) + timedelta(seconds=grace)
    if due < now:
        due = now
        grace = min(grace, 1)
    meta["deletionTimestamp"] = format_timestamp(due)
    meta["deletionGracePeriodSeconds"] = grace
    return True


def _set_finalizers(kind: ResourceKind, meta: Object, policy: str) -> None:
    if kind.plural == "events" or not policy:
        return
    kept = [name for name in meta.get("finalizers") or () if name not in {FOREGROUND, ORPHAN}]
    kept += {"Foreground": [FOREGROUND], "Orphan": [ORPHAN]}.get(policy, [])
    if kept:
        meta["finalizers"] = kept
    else:
        meta.pop("finalizers", None)


def _keep_definition(kind: ResourceKind, meta: Object) -> None:
    """Keep a definition until the objects of its kind are deleted."""
    if kind.name == "CustomResourceDefinition" and "deletionTimestamp" not in meta:
        meta["finalizers"] = [*(meta.get("finalizers") or ()), CLEANUP_FINALIZER]


def _moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
