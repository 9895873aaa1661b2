"""Anonymize a saved cluster so that the planner makes the same decisions.

Names, namespaces, labels, annotations, taints, images, UIDs, volumes and extended resources are replaced
consistently (see `pseudonyms`). Well-known names of Kubernetes and rescheduler, numbers and times stay. All
other text is replaced, wherever it occurs: a file can have text where no API server would put it.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from rescheduler.api.well_known_names import MAX_MOVES_ANNOTATION, WINDOWS_ANNOTATION
from rescheduler.cluster.resource_amounts import is_scalar_resource
from rescheduler.cluster.sources import pseudonyms
from rescheduler.cluster.sources.object_fields import FIELDS, STRUCT_FIELDS, FieldKind, FieldSpec
from rescheduler.cluster.sources.pseudonyms import (
    NamePseudonyms,
    NamespacePseudonyms,
    NumberPseudonyms,
    UidPseudonyms,
)
from rescheduler.config.move_limits import parse_limit, parse_windows

__all__ = ["anonymize"]

Object = dict[str, Any]
_COMPARING: Final = {"Gt", "Lt"}
_NUMBER: Final = re.compile(r"[+-]?[0-9.]+([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i|%)?")
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-][0-9:]+)?")
_DURATION: Final = re.compile(r"([0-9.]+(h|m|s|ms|us|ns))+")
_SCHEDULE: Final = re.compile(r"[0-9*/,? -]+")
_VERSION: Final = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
_SIZE: Final = re.compile(r"[0-9]+[KMG]i")
_NOT_COUNTED: Final = "requests."


def anonymize(objects: Iterable[Object], keep: Collection[str] = ()) -> list[Object]:
    """Return the objects with pseudonyms. `objects` must be trimmed; names and label keys in `keep` stay."""
    found = list(objects)
    anonymizer = _Anonymizer(frozenset(keep))
    for content in found:
        anonymizer.collect_numeric_keys(content)
        anonymizer.collect_ordinal(content)
    for content in found:
        anonymizer.anonymized(content)
    anonymizer.assign()
    return [anonymizer.anonymized(content) for content in found]


class _Anonymizer:
    """An anonymizer collects the names first; after `assign`, it replaces them."""

    def __init__(self, keep: frozenset[str]) -> None:
        self._kept_names = pseudonyms.NAMES | keep
        self._keep = keep
        self._words = NamePseudonyms()
        self._spaces = NamespacePseudonyms(pseudonyms.NAMESPACES | keep)
        self._uids = UidPseudonyms()
        self._numbers = NumberPseudonyms()
        self._leaves: Mapping[FieldKind, Callable[[Any], Any]] = {
            FieldKind.NAME: self._texts(self._name),
            FieldKind.CLAIM: self._texts(self._name),
            FieldKind.NAMESPACE: self._texts(self._spaces),
            FieldKind.UID: self._texts(self._uids),
            FieldKind.KIND: self._texts(self._kind),
            FieldKind.DRIVER: self._texts(self._driver),
            FieldKind.CONDITION: self._texts(self._condition),
            FieldKind.ADDRESS: self._texts(self._address),
            FieldKind.LABEL_KEY: self._texts(self._key),
            FieldKind.PLAIN: self._texts(self._plain),
            FieldKind.ANYTHING: self._texts(self._plain),
            FieldKind.LABELS: self._labels,
            FieldKind.ANNOTATIONS: self._annotations,
            FieldKind.AMOUNTS: self._amounts,
            FieldKind.TIMES: self._times,
            FieldKind.REQUIREMENT: self._each(self._requirement, FieldKind.REQUIREMENT),
            FieldKind.FIELD_REQUIREMENT: self._each(self._field_requirement, FieldKind.FIELD_REQUIREMENT),
            FieldKind.TAINT: self._each(self._taint, FieldKind.TAINT),
        }

    def assign(self) -> None:
        for each in (self._words, self._spaces, self._uids, self._numbers):
            each.assign()

    def anonymized(self, content: Object) -> Object:
        kept = {"apiVersion": self._kind(content["apiVersion"]), "kind": content["kind"]}
        replaced: Object = self._replaced(content, FIELDS[content["kind"]])
        return kept | replaced

    # --- first pass

    def collect_numeric_keys(self, value: Any) -> None:
        """Collect labels and taints that an expression compares as numbers."""
        if isinstance(value, list):
            for each in value:
                self.collect_numeric_keys(each)
        elif isinstance(value, dict):
            if value.get("operator") in _COMPARING and isinstance(value.get("key"), str):
                self._numbers.add_numeric_key(value["key"])
            for part in value.values():
                self.collect_numeric_keys(part)

    def collect_ordinal(self, content: Object) -> None:
        metadata = content["metadata"]
        for owner in metadata.get("ownerReferences") or ():
            stem, _, ordinal = metadata["name"].rpartition("-")
            if owner.get("kind") == "StatefulSet" and owner.get("name") == stem and ordinal.isdecimal():
                self._words.add_ordinal_name(metadata["name"])

    # --- shapes

    def _replaced(self, value: Any, fields: FieldSpec) -> Any:
        if isinstance(fields, FieldKind):
            return self._leaves[fields](value)
        if isinstance(value, list):
            return [self._replaced(each, fields) for each in value]
        return {name: self._replaced(part, fields[name]) for name, part in value.items() if name in fields}

    @staticmethod
    def _texts(replace: Callable[[str], str]) -> Callable[[Any], Any]:
        """Replace one text, or each text of a list; keep other values, and drop the content of objects."""

        def leaf(value: Any) -> Any:
            if isinstance(value, list):
                return [leaf(each) for each in value]
            if isinstance(value, dict):
                return {}
            return replace(value) if value and isinstance(value, str) else value

        return leaf

    @staticmethod
    def _each(replace: Callable[[Object], Object], what: FieldKind) -> Callable[[Any], Any]:
        """Replace the parts of one object, or of each object in a list."""

        def replaced(value: Object) -> Object:
            return replace({name: part for name, part in value.items() if name in STRUCT_FIELDS[what]})

        def leaf(value: Any) -> Any:
            return [replaced(each) for each in value] if isinstance(value, list) else replaced(value)

        return leaf

    # --- single texts

    def _name(self, text: str) -> str:
        return text if text in self._kept_names else self._words(text)

    def _plain(self, text: str) -> str:
        return text if text in pseudonyms.WORDS or _is_number_or_time(text) else self._words(text)

    def _kind(self, text: str) -> str:
        """Replace a kind, also with its group and version."""
        group, slash, version = text.rpartition("/")
        is_known_group = _VERSION.fullmatch(version) and (not slash or group in pseudonyms.GROUPS)
        if text in pseudonyms.KINDS or text in self._keep or is_known_group:
            return text
        return self._words(text)

    def _driver(self, text: str) -> str:
        """Replace a driver, also as nodes name attached volumes: `kubernetes.io/csi/DRIVER^VOLUME`."""
        prefix = "kubernetes.io/csi/"
        if text.startswith(prefix):
            driver, mark, volume = text.removeprefix(prefix).partition("^")
            return f"{prefix}{self._driver(driver)}{mark}{self._name(volume)}"
        return text if text in pseudonyms.DRIVERS else self._name(text)

    def _condition(self, text: str) -> str:
        return text if text in pseudonyms.CONDITIONS else self._words(text)

    def _address(self, text: str) -> str:
        return text if text in pseudonyms.ADDRESSES else self._words(text)

    def _resource(self, text: str) -> str:
        """Replace the name and keep a prefix that has a meaning."""
        if text in pseudonyms.RESOURCES:
            return text
        for prefix in pseudonyms.RESOURCE_PREFIXES:
            if text.startswith(prefix):
                rest = text.removeprefix(prefix)
                return text if _SIZE.fullmatch(rest) else f"{prefix}{self._name(rest)}"
        if text.startswith(_NOT_COUNTED) and not is_scalar_resource(text):
            return f"{_NOT_COUNTED}{self._name(text.removeprefix(_NOT_COUNTED))}"
        return self._name(text)

    def _key(self, text: str) -> str:
        """Replace the key of a label, a taint, an annotation or a finalizer."""
        if text in pseudonyms.KEYS or text in self._keep:
            return text
        domain, slash, name = text.rpartition("/")
        return f"{domain}{slash}{self._words(name)}" if domain in pseudonyms.DOMAINS else self._words(text)

    def _value(self, key: str, text: str) -> str:
        if not text or key in self._keep or text in pseudonyms.MEANINGFUL.get(key, ()):
            return text
        if _limits_moves(key, text):
            return text
        if key in pseudonyms.VALUES:
            return ",".join(
                part if part in pseudonyms.DRIVERS else self._plain(part) for part in text.split(",")
            )
        if key == "kubernetes.io/metadata.name":
            return self._spaces(text)
        if self._numbers.has(key, text):
            return self._numbers(text)
        return self._name(text)

    # --- structures

    def _labels(self, labels: Mapping[str, str]) -> Object:
        return {self._key(key): self._value(key, value) for key, value in labels.items()}

    def _amounts(self, amounts: Mapping[str, Any]) -> Object:
        plain = self._leaves[FieldKind.PLAIN]
        return {self._resource(name): plain(amount) for name, amount in amounts.items()}

    def _times(self, times: Mapping[str, Any]) -> Object:
        plain = self._leaves[FieldKind.PLAIN]
        return {self._name(name): plain(moment) for name, moment in times.items()}

    def _requirement(self, requirement: Object) -> Object:
        key = requirement.get("key", "")
        replaced = {
            name: self._leaves[FieldKind.PLAIN](part)
            for name, part in requirement.items()
            if name == "operator"
        }
        replaced["key"] = self._key(key)
        if requirement.get("values"):
            replaced["values"] = [self._value(key, value) for value in requirement["values"]]
        return replaced

    def _field_requirement(self, requirement: Object) -> Object:
        replaced = {
            name: self._leaves[FieldKind.PLAIN](part)
            for name, part in requirement.items()
            if name != "values"
        }
        if requirement.get("values"):
            replaced["values"] = [self._name(value) for value in requirement["values"]]
        return replaced

    def _taint(self, taint: Object) -> Object:
        key = taint.get("key") or ""
        named = {"key", "value"}
        replaced = {
            name: self._leaves[FieldKind.PLAIN](part) for name, part in taint.items() if name not in named
        }
        if key:
            replaced["key"] = self._key(key)
        if taint.get("value"):
            replaced["value"] = self._value(key, taint["value"])
        return replaced

    # --- annotations

    def _annotations(self, annotations: Mapping[str, str]) -> Object:
        return {self._key(key): self._annotation(key, value) for key, value in annotations.items()}

    def _annotation(self, key: str, text: str) -> str:
        """Replace the names in an annotation, including those inside our own records, which are JSON."""
        if text[:1] in {"[", "{"}:
            try:
                return msgspec.json.encode(self._record(msgspec.json.decode(text))).decode()
            except (msgspec.DecodeError, RecursionError):
                pass
        return self._value(key, text) if not self._uids.knows(text) else self._uids(text)

    def _record(self, value: Any, in_field: str = "") -> Any:
        if isinstance(value, list):
            return [self._record(each) for each in value]
        if isinstance(value, dict):
            known = frozenset() if in_field == pseudonyms.RECORD_BY_NAME else pseudonyms.RECORDS
            return {
                name if name in known else self._name(name): self._record(part, name)
                for name, part in value.items()
            }
        if not isinstance(value, str) or _TIME.fullmatch(value):
            return value
        return self._uids(value) if self._uids.knows(value) else self._name(value)


def _is_number_or_time(text: str) -> bool:
    return any(shape.fullmatch(text) for shape in (_NUMBER, _TIME, _DURATION, _SCHEDULE))


def _limits_moves(key: str, text: str) -> bool:
    """Return whether it is a valid limit of moves. A time zone other than UTC would reveal the place."""
    if key == MAX_MOVES_ANNOTATION:
        return parse_limit(text) is not None
    return key == WINDOWS_ANNOTATION and "/" not in text and parse_windows(text) is not None
