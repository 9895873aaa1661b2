"""Serve lists: select records by namespace and selectors, at a version, in pages."""

import base64
import binascii
from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

import msgspec

from kubesim.apiserver.api_messages import Object, decode, encode
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.object_store import Compacted, ObjectStore, StoredObject
from kubesim.apiserver.request_route import RequestRoute
from kubesim.apiserver.selectable_fields import field_selector
from kubesim.apiserver.status_errors import StatusError, bad_request, expired
from kubevalues import FieldSelector, Selector, SelectorError, parse_selector

__all__ = ["ListSelection", "StoredPage", "bad_options", "check_version_known", "list_page", "parse_version"]


class ListSelection:
    """A selection by namespace, name, labels and fields."""

    def __init__(
        self,
        *,
        namespace: str = "",
        name: str = "",
        labels: Selector | None = None,
        fields: FieldSelector | None = None,
    ) -> None:
        self.namespace = namespace
        self._name = name
        self._labels = labels
        self._fields = fields

    @classmethod
    def parse(cls, route: RequestRoute, query: Mapping[str, str]) -> "ListSelection":
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        return cls(
            namespace=route.namespace,
            name=route.name,
            labels=_labels(labels) if labels else None,
            fields=field_selector(route.kind, fields) if fields else None,
        )

    @property
    def selects(self) -> bool:
        """Return whether it excludes anything from a collection or namespace."""
        return bool(self._name or self._labels is not None or self._fields is not None)

    def includes(self, record: StoredObject) -> bool:
        if self.namespace and record.namespace != self.namespace:
            return False
        if self._name and record.name != self._name:
            return False
        if self._labels is not None and not self._labels.matches(record.labels):
            return False
        return self._fields is None or self._fields.matches(record.fields)


def _labels(text: str) -> Selector:
    try:
        return parse_selector(text)
    except SelectorError as error:
        raise bad_request(f"unable to parse requirement: {error}") from error


_LONGEST_NUMBER = 20
"""The number of digits of the largest 64-bit number."""
_TOO_OLD = "The resourceVersion for the provided list is too old."
_TOO_OLD_TO_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent "
    "list - objects that were created, modified, or deleted between the time the first chunk was returned "
    "and now may show up in the list."
)


class StoredPage(NamedTuple):
    records: list[StoredObject]
    metadata: Object


class _Token(msgspec.Struct):
    """The start of the next page; version -1 means the newest."""

    rv: int
    start: str
    v: str = "meta.k8s.io/v1"

    def encoded(self) -> str:
        return base64.urlsafe_b64encode(encode(self)).rstrip(b"=").decode()

    @classmethod
    def parse(cls, text: str) -> "_Token":
        try:
            raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            return msgspec.convert(decode(raw), cls)
        except (ValueError, binascii.Error, msgspec.DecodeError) as error:
            raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error


class _Asked(NamedTuple):
    version: int | None
    """None for the newest."""
    exact: bool
    limit: int
    after: str


def list_page(
    store: ObjectStore, kind: ResourceKind, selection: ListSelection, query: Mapping[str, str]
) -> StoredPage:
    asked = _parse(query)
    if asked.version:
        check_version_known(store, asked.version)
    collection, version = store.collection(kind), store.version
    if asked.version and asked.exact:
        try:
            collection, version = collection.as_of(asked.version), asked.version
        except Compacted as gone:
            raise _too_old(asked, store) from gone
    candidates = collection.ordered(selection.namespace, asked.after)
    matching = filter(selection.includes, candidates) if selection.selects else candidates
    metadata: Object = {"resourceVersion": str(version)}
    if kind.custom:
        metadata["continue"] = ""
    if not asked.limit:
        return StoredPage(list(matching), metadata)
    records = list(islice(matching, asked.limit))
    following = next(matching, None)
    if following is not None:
        metadata["continue"] = _Token(version, records[-1].key).encoded()
        if not selection.selects:
            metadata["remainingItemCount"] = 1 + sum(1 for _ in candidates)
    return StoredPage(records, metadata)


def _parse(query: Mapping[str, str]) -> _Asked:
    version_text, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    if "sendInitialEvents" in query:
        raise bad_options("sendInitialEvents", "Forbidden: sendInitialEvents is forbidden for list")
    limit = _limit(query.get("limit", ""))
    if query.get("continue"):
        if match:
            raise _forbidden("resourceVersionMatch is forbidden for continue")
        if version_text not in {"", "0"}:
            raise bad_request("specifying resource version is not allowed when using continue")
        token = _Token.parse(query["continue"])
        return _Asked(token.rv if token.rv > 0 else None, exact=True, limit=limit, after=token.start)
    if match and not version_text:
        raise _forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match not in {"", "Exact", "NotOlderThan"}:
        raise _unsupported_match(match)
    if match == "Exact" and version_text == "0":
        raise _forbidden('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    version = parse_version(version_text)
    exact = match == "Exact" or (not match and limit > 0 and bool(version))
    # Version 0 is answered from the real server's cache, which knows no pages.
    return _Asked(version, exact, 0 if version_text == "0" else limit, "")


def _limit(text: str) -> int:
    try:
        return max(0, int(text or 0))
    except ValueError as error:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from error


def parse_version(text: str) -> int | None:
    """Return the version, or None if there is none."""
    if not text:
        return None
    if not text.isdecimal() or len(text) > _LONGEST_NUMBER:
        message = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f"invalid resource version: resourceVersion: {message}")
    return int(text)


def check_version_known(store: ObjectStore, version: int) -> None:
    if version > store.version:
        raise StatusError(
            504,
            "Timeout",
            f"Timeout: Too large resource version: {version}, current: {store.version}",
            details={
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            },
            headers={"retry-after": "1"},
        )


def _too_old(asked: _Asked, store: ObjectStore) -> StatusError:
    if not asked.after:
        return expired(_TOO_OLD)
    failure = expired(_TOO_OLD_TO_CONTINUE)
    failure.metadata = {"continue": _Token(-1, asked.after).encoded(), "resourceVersion": str(store.version)}
    return failure


def _forbidden(why: str) -> StatusError:
    return bad_options("resourceVersionMatch", f"Forbidden: {why}")


def _unsupported_match(match: str) -> StatusError:
    supported = '"Exact", "NotOlderThan", ""'
    return bad_options(
        "resourceVersionMatch",
        f'Unsupported value: "{match}": supported values: {supported}',
        "FieldValueNotSupported",
    )


def bad_options(field: str, message: str, reason: str = "FieldValueForbidden") -> StatusError:
    return StatusError(
        422,
        "Invalid",
        f'ListOptions.meta.k8s.io "" is invalid: {field}: {message}',
        details={
            "group": "meta.k8s.io",
            "kind": "ListOptions",
            "causes": [{"reason": reason, "message": message, "field": field}],
        },
    )
