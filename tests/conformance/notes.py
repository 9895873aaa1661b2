"""Notes of a scenario, in a form that is equal on both servers.

What can't be equal (uids, versions, times, the name of the scenario's own namespace) is replaced by its name.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["at", "normalised", "without_made_names"]

_PLACEHOLDERS = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"(resource ?[vV]ersion\S*:? )\d+"), r"\1N"),
    (re.compile(r"N \(\d+\)"), "N (N)"),
    (re.compile(r"(ResourceVersion in record \(|, current: )\d+"), r"\1N"),
    # Which fields differ, the real server shows as lines of its own Go structs.
    (re.compile(r"(previously negative\))\n.*", re.DOTALL), r"\1"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
)
_NEVER_EQUAL = {"resourceVersion", "managedFields", "creationTimestamp"}


def normalised(value: object, namespace: str) -> Any:
    if isinstance(value, str):
        text = value.replace(namespace, "NAMESPACE")
        for pattern, name in _PLACEHOLDERS:
            text = pattern.sub(name, text)
        return _without_quoted_objects(text)
    if isinstance(value, Mapping):
        return {key: normalised(part, namespace) for key, part in value.items() if key not in _NEVER_EQUAL}
    if isinstance(value, list | tuple):
        return [normalised(part, namespace) for part in value]
    return value


_QUOTED = re.compile(r'value: (?=\{|\[\{|"\{|"map\[)')


def _without_quoted_objects(text: str) -> str:
    """Refusals quote what they refuse; the real server quotes whole objects as its Go structs."""
    reported = ""
    while found := _QUOTED.search(text):
        try:
            _, end = json.JSONDecoder().raw_decode(text, found.end())
        except json.JSONDecodeError:
            break
        reported += text[: found.end()] + "OBJECT"
        text = text[end:]
    return reported + text


def at(item: Any, path: str) -> Any:
    """`metadata.labels` of an object; None where there is nothing. `*` is every element of a list."""
    head, _, rest = path.partition(".")
    if not head:
        return item
    if head == "*":
        return [at(part, rest) for part in item or ()]
    if isinstance(item, list):
        found = item[int(head)] if int(head) < len(item) else None
    else:
        found = item.get(head) if isinstance(item, Mapping) else None
    return at(found, rest)


_GENERATED = "[bcdfghjklmnpqrstvwxz2456789]"
_MADE_NAMES = re.compile(
    rf"(?<=[a-z0-9])-(?:{_GENERATED}{{6,10}}-{_GENERATED}{{5}}|{_GENERATED}{{5,10}})(?![a-z0-9-])"
)
"""The ends of names that controllers make up, hashes of templates among them."""


def without_made_names(value: object) -> object:
    """Names of pods and ReplicaSets without what controllers put behind their owner's name."""
    if isinstance(value, str):
        return _MADE_NAMES.sub("-MADE", value)
    if isinstance(value, Mapping):
        return {without_made_names(key): without_made_names(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_made_names(part) for part in value]
    return value
