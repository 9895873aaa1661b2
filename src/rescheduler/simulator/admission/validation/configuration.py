"""Rules for config maps and secrets."""

from collections.abc import Iterator

from rescheduler.simulator.admission import causes, names
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Cause

__all__ = ["check_configuration"]

_FIELDS = ("data", "binaryData")
_MOST_BYTES = 1 << 20
_FROZEN = "field is immutable when `immutable` is set"


def check_configuration(new: Object, old: Object | None) -> Iterator[Cause]:
    yield from _check_keys(new)
    size = sum(len(value.encode()) for field in _FIELDS for value in new.get(field, {}).values())
    if size > _MOST_BYTES:
        yield causes.too_long("data" if new.get("kind") == "Secret" else "", _MOST_BYTES)
    if old is None:
        return
    if new.get("type") != old.get("type"):
        yield causes.immutable("type", new.get("type"))
    if old.get("immutable"):
        yield from _check_frozen(new, old)


def _check_keys(new: Object) -> Iterator[Cause]:
    for field in _FIELDS:
        for key in new.get(field, ()):
            for complaint in names.config_key(key):
                yield causes.invalid(f"{field}[{key}]", key, complaint)
    for key in new.get("binaryData", ()):
        if key in new.get("data", ()):
            yield causes.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")


def _check_frozen(new: Object, old: Object) -> Iterator[Cause]:
    if not new.get("immutable"):
        yield causes.forbidden("immutable", _FROZEN)
    for field in _FIELDS:
        if new.get(field, {}) != old.get(field, {}):
            yield causes.forbidden(field, _FROZEN)
