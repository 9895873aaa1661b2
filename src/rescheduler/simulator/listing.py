"""Lists: at a version, in pages, as bytes."""

import base64
import binascii
from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

import msgspec

from rescheduler.simulator.exchange import Object, decode, encode
from rescheduler.simulator.failures import Failure, bad_request, expired
from rescheduler.simulator.kinds import Kind
from rescheduler.simulator.selection import Selection
from rescheduler.simulator.store import Compacted, Record, Store

__all__ = ["Page", "bad_options", "check_version_known", "list_page", "parse_version"]

_LONGEST_NUMBER = 20
"""Digits of the largest number of 64 bits."""
_TOO_OLD = "The resourceVersion for the provided list is too old."
_TOO_OLD_TO_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent "
    "list - objects that were created, modified, or deleted between the time the first chunk was returned "
    "and now may show up in the list."
)


class Page(NamedTuple):
    records: list[Record]
    metadata: Object


class _Token(msgspec.Struct):
    """Where the next page starts; version -1 means: whatever is there now."""

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


def list_page(store: Store, kind: Kind, selection: Selection, query: Mapping[str, str]) -> Page:
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
        return Page(list(matching), metadata)
    records = list(islice(matching, asked.limit))
    following = next(matching, None)
    if following is not None:
        metadata["continue"] = _Token(version, records[-1].key).encoded()
        if not selection.selects:
            metadata["remainingItemCount"] = 1 + sum(1 for _ in candidates)
    return Page(records, metadata)


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
    """None if nothing was said."""
    if not text:
        return None
    if not text.isdecimal() or len(text) > _LONGEST_NUMBER:
        message = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f"invalid resource version: resourceVersion: {message}")
    return int(text)


def check_version_known(store: Store, version: int) -> None:
    if version > store.version:
        raise Failure(
            504,
            "Timeout",
            f"Timeout: Too large resource version: {version}, current: {store.version}",
            details={
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            },
            headers={"retry-after": "1"},
        )


def _too_old(asked: _Asked, store: Store) -> Failure:
    if not asked.after:
        return expired(_TOO_OLD)
    failure = expired(_TOO_OLD_TO_CONTINUE)
    failure.metadata = {"continue": _Token(-1, asked.after).encoded(), "resourceVersion": str(store.version)}
    return failure


def _forbidden(why: str) -> Failure:
    return bad_options("resourceVersionMatch", f"Forbidden: {why}")


def _unsupported_match(match: str) -> Failure:
    supported = '"Exact", "NotOlderThan", ""'
    return bad_options(
        "resourceVersionMatch",
        f'Unsupported value: "{match}": supported values: {supported}',
        "FieldValueNotSupported",
    )


def bad_options(field: str, message: str, reason: str = "FieldValueForbidden") -> Failure:
    return Failure(
        422,
        "Invalid",
        f'ListOptions.meta.k8s.io "" is invalid: {field}: {message}',
        details={
            "group": "meta.k8s.io",
            "kind": "ListOptions",
            "causes": [{"reason": reason, "message": message, "field": field}],
        },
    )
