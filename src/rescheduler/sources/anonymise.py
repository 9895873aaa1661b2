"""A saved cluster without a word of its owner's, in which the planner decides the same.

Names, namespaces, labels, annotations, taints, images, uids, volumes and extended resources are replaced,
each everywhere by the same (`pseudonyms`). What stays is the vocabulary of Kubernetes and our own
(`well_known`), numbers and times. Whatever is neither is replaced too, wherever it stands: a file may have
words where no API server would put them.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from rescheduler.model.resources import is_counted_by_name
from rescheduler.sources import well_known
from rescheduler.sources.fields import FIELDS, PARTS, Fields, What
from rescheduler.sources.pseudonyms import Numbers, Spaces, Uids, Words

__all__ = ["anonymised"]

Object = dict[str, Any]
_COMPARING: Final = {"Gt", "Lt"}
_NUMBER: Final = re.compile(r"[+-]?[0-9.]+([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i|%)?")
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-][0-9:]+)?")
_DURATION: Final = re.compile(r"([0-9.]+(h|m|s|ms|us|ns))+")
_SCHEDULE: Final = re.compile(r"[0-9*/,? -]+")
_VERSION: Final = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
_SIZE: Final = re.compile(r"[0-9]+[KMG]i")
_NOT_COUNTED: Final = "requests."


def anonymised(objects: Iterable[Object], keep: Collection[str] = ()) -> list[Object]:
    """`objects` are trimmed already. `keep` has names, and keys of labels with their values, that stay."""
    found = list(objects)
    disguise = _Disguise(frozenset(keep))
    for content in found:
        disguise.note_numbers(content)
        disguise.note_ordinal(content)
    for content in found:
        disguise.wear(content)
    disguise.settle()
    return [disguise.wear(content) for content in found]


class _Disguise:
    """First it only hears; once settled, it replaces."""

    def __init__(self, keep: frozenset[str]) -> None:
        self._kept_names = well_known.NAMES | keep
        self._keep = keep
        self._words = Words()
        self._spaces = Spaces(well_known.NAMESPACES | keep)
        self._uids = Uids()
        self._numbers = Numbers()
        self._leaves: Mapping[What, Callable[[Any], Any]] = {
            What.NAME: self._texts(self._name),
            What.CLAIM: self._texts(self._name),
            What.NAMESPACE: self._texts(self._spaces),
            What.UID: self._texts(self._uids),
            What.KIND: self._texts(self._kind),
            What.DRIVER: self._texts(self._driver),
            What.CONDITION: self._texts(self._condition),
            What.ADDRESS: self._texts(self._address),
            What.LABEL_KEY: self._texts(self._key),
            What.PLAIN: self._texts(self._plain),
            What.ANYTHING: self._texts(self._plain),
            What.LABELS: self._labels,
            What.MARKS: self._marks,
            What.AMOUNTS: self._amounts,
            What.TIMES: self._times,
            What.REQUIREMENT: self._each(self._requirement, What.REQUIREMENT),
            What.FIELD_REQUIREMENT: self._each(self._field_requirement, What.FIELD_REQUIREMENT),
            What.TAINT: self._each(self._taint, What.TAINT),
        }

    def settle(self) -> None:
        for book in (self._words, self._spaces, self._uids, self._numbers):
            book.settle()

    def wear(self, content: Object) -> Object:
        kept = {"apiVersion": self._kind(content["apiVersion"]), "kind": content["kind"]}
        worn: Object = self._worn(content, FIELDS[content["kind"]])
        return kept | worn

    # --- what has to be known before

    def note_numbers(self, value: Any) -> None:
        """Labels and taints that some expression compares as numbers."""
        if isinstance(value, list):
            for each in value:
                self.note_numbers(each)
        elif isinstance(value, dict):
            if value.get("operator") in _COMPARING and isinstance(value.get("key"), str):
                self._numbers.hear_key(value["key"])
            for part in value.values():
                self.note_numbers(part)

    def note_ordinal(self, content: Object) -> None:
        metadata = content["metadata"]
        for owner in metadata.get("ownerReferences") or ():
            stem, _, ordinal = metadata["name"].rpartition("-")
            if owner.get("kind") == "StatefulSet" and owner.get("name") == stem and ordinal.isdecimal():
                self._words.hear_ordinal(metadata["name"])

    # --- shapes

    def _worn(self, value: Any, fields: Fields) -> Any:
        if isinstance(fields, What):
            return self._leaves[fields](value)
        if isinstance(value, list):
            return [self._worn(each, fields) for each in value]
        return {name: self._worn(part, fields[name]) for name, part in value.items() if name in fields}

    @staticmethod
    def _texts(replace: Callable[[str], str]) -> Callable[[Any], Any]:
        """For one text, or each of a list; what is none stays, but for what should not be there at all."""

        def leaf(value: Any) -> Any:
            if isinstance(value, list):
                return [leaf(each) for each in value]
            if isinstance(value, dict):
                return {}
            return replace(value) if value and isinstance(value, str) else value

        return leaf

    @staticmethod
    def _each(replace: Callable[[Object], Object], what: What) -> Callable[[Any], Any]:
        """For one object with the parts of that, or each of a list."""

        def worn(value: Object) -> Object:
            return replace({name: part for name, part in value.items() if name in PARTS[what]})

        def leaf(value: Any) -> Any:
            return [worn(each) for each in value] if isinstance(value, list) else worn(value)

        return leaf

    # --- single texts

    def _name(self, text: str) -> str:
        return text if text in self._kept_names else self._words(text)

    def _plain(self, text: str) -> str:
        return text if text in well_known.WORDS or _is_number_or_time(text) else self._words(text)

    def _kind(self, text: str) -> str:
        """Also the group and version of one."""
        group, slash, version = text.rpartition("/")
        is_known_group = _VERSION.fullmatch(version) and (not slash or group in well_known.GROUPS)
        if text in well_known.KINDS or text in self._keep or is_known_group:
            return text
        return self._words(text)

    def _driver(self, text: str) -> str:
        """Also as nodes name volumes that are attached to them: `kubernetes.io/csi/DRIVER^VOLUME`."""
        prefix = "kubernetes.io/csi/"
        if text.startswith(prefix):
            driver, mark, volume = text.removeprefix(prefix).partition("^")
            return f"{prefix}{self._driver(driver)}{mark}{self._name(volume)}"
        return text if text in well_known.DRIVERS else self._name(text)

    def _condition(self, text: str) -> str:
        return text if text in well_known.CONDITIONS else self._words(text)

    def _address(self, text: str) -> str:
        return text if text in well_known.ADDRESSES else self._words(text)

    def _resource(self, text: str) -> str:
        """So that it counts as before: some are told by how they begin."""
        if text in well_known.RESOURCES:
            return text
        for prefix in well_known.RESOURCE_PREFIXES:
            if text.startswith(prefix):
                rest = text.removeprefix(prefix)
                return text if _SIZE.fullmatch(rest) else f"{prefix}{self._name(rest)}"
        if text.startswith(_NOT_COUNTED) and not is_counted_by_name(text):
            return f"{_NOT_COUNTED}{self._name(text.removeprefix(_NOT_COUNTED))}"
        return self._name(text)

    def _key(self, text: str) -> str:
        """Of a label, a taint, an annotation, a finalizer."""
        if text in well_known.KEYS or text in self._keep:
            return text
        domain, slash, name = text.rpartition("/")
        return f"{domain}{slash}{self._words(name)}" if domain in well_known.DOMAINS else self._words(text)

    def _value(self, key: str, text: str) -> str:
        if not text or key in self._keep or text in well_known.MEANINGFUL.get(key, ()):
            return text
        if key in well_known.VALUES:
            return ",".join(
                part if part in well_known.DRIVERS else self._plain(part) for part in text.split(",")
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
        plain = self._leaves[What.PLAIN]
        return {self._resource(name): plain(amount) for name, amount in amounts.items()}

    def _times(self, times: Mapping[str, Any]) -> Object:
        plain = self._leaves[What.PLAIN]
        return {self._name(name): plain(moment) for name, moment in times.items()}

    def _requirement(self, requirement: Object) -> Object:
        key = requirement.get("key", "")
        worn = {
            name: self._leaves[What.PLAIN](part) for name, part in requirement.items() if name == "operator"
        }
        worn["key"] = self._key(key)
        if requirement.get("values"):
            worn["values"] = [self._value(key, value) for value in requirement["values"]]
        return worn

    def _field_requirement(self, requirement: Object) -> Object:
        worn = {
            name: self._leaves[What.PLAIN](part) for name, part in requirement.items() if name != "values"
        }
        if requirement.get("values"):
            worn["values"] = [self._name(value) for value in requirement["values"]]
        return worn

    def _taint(self, taint: Object) -> Object:
        key = taint.get("key") or ""
        named = {"key", "value"}
        worn = {name: self._leaves[What.PLAIN](part) for name, part in taint.items() if name not in named}
        if key:
            worn["key"] = self._key(key)
        if taint.get("value"):
            worn["value"] = self._value(key, taint["value"])
        return worn

    # --- annotations

    def _marks(self, marks: Mapping[str, str]) -> Object:
        return {self._key(key): self._mark(key, value) for key, value in marks.items()}

    def _mark(self, key: str, text: str) -> str:
        """Records of our own are JSON: what they name is replaced inside of them."""
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
            known = frozenset() if in_field == well_known.RECORD_BY_NAME else well_known.RECORDS
            return {
                name if name in known else self._name(name): self._record(part, name)
                for name, part in value.items()
            }
        if not isinstance(value, str) or _TIME.fullmatch(value):
            return value
        return self._uids(value) if self._uids.knows(value) else self._name(value)


def _is_number_or_time(text: str) -> bool:
    return any(shape.fullmatch(text) for shape in (_NUMBER, _TIME, _DURATION, _SCHEDULE))
