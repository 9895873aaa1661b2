"""Read the patch of a request and apply it to an object."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from kubesim.admission import object_decoding
from kubesim.apiserver import event_conversion
from kubesim.apiserver.api_messages import Object, ServerRequest, decode, encode
from kubesim.apiserver.content_negotiation import expect_type_and_metadata, parse_json, parse_yaml
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.status_errors import StatusError, bad_request, not_found, unsupported_media_type
from kubesim.apiserver.write_options import WriteOptions
from kubesim.patches.json_patches import BadPatch, PatchFailed, json_patch, merge_patch
from kubesim.patches.merge_schema import MergeNode, schema_of
from kubesim.patches.server_side_apply import ApplyConflict, apply
from kubesim.patches.strategic_merge import BadStrategicPatch, strategic_merge

__all__ = ["APPLY", "PatchRequest"]

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
_REJECTED = "the server rejected our request due to an error in our request"


class PatchRequest:
    """A patch of a request; call it with an object to get the wanted object."""

    def __init__(
        self,
        kind: ResourceKind,
        name: str,
        request: ServerRequest,
        options: WriteOptions,
        now: datetime,
        *,
        schema: MergeNode | None = None,
        known_fields: Callable[[Object], list[str]] = lambda _: [],
    ) -> None:
        """Read the patch.

        `known_fields` warns about unknown fields or rejects them. Without a `schema`, that of the built-in
        kind is used.
        """
        offered = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        appliers: dict[str, Callable[[Object], Object]] = {
            JSON_PATCH: self._json_patch,
            MERGE: self._merge_patch,
            STRATEGIC: self._strategic_merge,
        }
        if kind.custom:
            del appliers[STRATEGIC]
        if offered not in {*appliers, APPLY}:
            raise _unsupported(kind, [*appliers, APPLY])
        self.is_apply = offered == APPLY
        self.warnings: list[str] = []
        self._kind = kind
        self._name = name
        self._options = options
        self._known_fields = known_fields
        self._now = now
        self._schema = schema or schema_of(kind)
        self._apply_patch = appliers.get(offered)
        self._content = _parse(request.body, is_yaml=self.is_apply)
        if self.is_apply and not request.query.get("fieldManager"):
            raise _bad_options(
                "fieldManager", "FieldValueRequired", "Required value: is required for apply patch"
            )
        if not self.is_apply and "force" in request.query:
            raise _bad_options(
                "force", "FieldValueForbidden", "Forbidden: may not be specified for non-apply patch"
            )

    def __call__(self, live: Object | None) -> Object:
        if self._apply_patch is None:
            return self._apply(live)
        if live is None:
            raise not_found(self._kind, self._name)
        shown = decode(event_conversion.shown(self._kind, encode(live)))
        wanted = self._apply_patch(shown)
        self._expect_readable(wanted)
        return event_conversion.stored(self._kind, wanted)[1]

    def _expect_readable(self, wanted: Object) -> None:
        """Check that the patched object is a valid object of its kind; otherwise the patch is invalid."""
        kind = self._kind
        given_type = (wanted.get("apiVersion"), wanted.get("kind"))
        if given_type != (kind.api_version, kind.name):
            raise _no_such_object(
                wanted, f"converting ({given_type[0]}.{given_type[1]}) to ({kind.name}): unknown conversion"
            )
        try:
            self.warnings = self._known_fields(wanted)
            object_decoding.decode_object(kind, wanted)
        except StatusError as refused:
            message = refused.message.partition(f"cannot be handled as a {kind.name}: ")[2]
            raise _no_such_object(wanted, message or refused.message) from refused

    def _json_patch(self, live: Object) -> Object:
        try:
            patched = json_patch(live, self._content)
        except BadPatch as error:
            raise bad_request(str(error)) from error
        except PatchFailed as error:
            raise StatusError(422, "Invalid", _REJECTED, details={}) from error
        return _map(patched)

    def _merge_patch(self, live: Object) -> Object:
        patched: Object = merge_patch(live, _map(self._content))
        return patched

    def _strategic_merge(self, live: Object) -> Object:
        try:
            return strategic_merge(live, _map(self._content), self._schema)
        except BadStrategicPatch as error:
            raise (
                bad_request(str(error)) if error.malformed else StatusError(500, "", str(error))
            ) from error

    def _apply(self, live: Object | None) -> Object:
        configuration = _map(self._content)
        expect_type_and_metadata(configuration)
        given_type = (configuration.get("apiVersion") or "", configuration.get("kind") or "")
        if given_type != (self._kind.api_version, self._kind.name):
            group_version = given_type[0] if "/" in given_type[0] else f"/{given_type[0]}"
            raise bad_request(f"invalid object type: {group_version}, Kind={given_type[1]}")
        if (configuration.get("metadata") or {}).get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        try:
            return apply(
                live,
                configuration,
                self._schema,
                manager=self._options.manager,
                force=self._options.force,
                now=self._now,
            )
        except ApplyConflict as refused:
            raise _apply_conflict(refused, self._kind) from refused


def _parse(body: bytes, *, is_yaml: bool) -> Any:
    return (parse_yaml if is_yaml else parse_json)(body, "error decoding patch")


def _map(content: Any) -> Object:
    if not isinstance(content, dict):
        raise bad_request("error decoding patch: an object is expected")
    return content


def _unsupported(kind: ResourceKind, known: list[str]) -> StatusError:
    if kind.custom:
        return unsupported_media_type(known)
    return StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})


def _bad_options(field: str, reason: str, message: str) -> StatusError:
    return StatusError(
        422,
        "Invalid",
        f'PatchOptions.meta.k8s.io "" is invalid: {field}: {message}',
        details={
            "group": "meta.k8s.io",
            "kind": "PatchOptions",
            "causes": [{"reason": reason, "message": message, "field": field}],
        },
    )


def _no_such_object(wanted: Object, why: str) -> StatusError:
    message = f"Invalid value: {encode(encode(wanted).decode()).decode()}: {why}"
    cause = {"reason": "FieldValueInvalid", "message": message, "field": "patch"}
    return StatusError(422, "Invalid", f' "" is invalid: patch: {message}', details={"causes": [cause]})


def _apply_conflict(refused: ApplyConflict, kind: ResourceKind) -> StatusError:
    by_manager: dict[str, list[str]] = {}
    causes = []
    for conflict in refused.conflicts:
        owner = f'"{conflict.manager}"'
        if conflict.operation == "Update":
            owner += f" using {kind.api_version}"
        causes.append(
            {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": conflict.field}
        )
        by_manager.setdefault(owner, []).append(conflict.field)
    if len(refused.conflicts) == 1:
        (owner, fields), *_ = by_manager.items()
        message = f"Apply failed with 1 conflict: conflict with {owner}: {fields[0]}"
    else:
        listed = "".join(
            f"conflicts with {owner}:\n" + "".join(f"- {field}\n" for field in fields)
            for owner, fields in by_manager.items()
        )
        message = f"Apply failed with {len(refused.conflicts)} conflicts: {listed.rstrip()}"
    return StatusError(409, "Conflict", message, details={"causes": causes})
