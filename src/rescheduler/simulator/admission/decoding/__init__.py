"""From JSON to an object of its kind: known fields only, each of its type.

A value of the wrong type is refused as the real server's decoder refuses it, with code 400. Fields that
a kind does not have are dropped (see `strictness` for who wants to know).
Custom kinds have their own schema (`rescheduler.simulator.custom`); here only their metadata is read.
"""

from rescheduler.simulator.admission.decoding.mismatch import Malformed, Mismatch
from rescheduler.simulator.admission.decoding.readers import reader_of
from rescheduler.simulator.admission.decoding.table import type_of
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Failure, bad_request
from rescheduler.simulator.kinds import Kind

__all__ = ["read", "unknown_fields", "unreadable"]


def read(kind: Kind, obj: Object) -> Object:
    """A copy of `obj` with the known fields only; raises a `Failure` of code 400."""
    type_name = type_of(kind)
    try:
        if type_name:
            said: Object = {"kind": kind.name, "apiVersion": kind.api_version}
            known: Object = reader_of(type_name).read(obj)
            return said | {"metadata": {}} | known | said
        return _read_custom(obj)
    except Malformed as malformed:
        raise unreadable(kind, str(malformed)) from malformed


def _read_custom(obj: Object) -> Object:
    if type(obj) is not dict:
        raise Mismatch(obj, "map[string]interface {}")
    metadata = obj.get("metadata")
    return obj | {"metadata": reader_of("ObjectMeta").read({} if metadata is None else metadata)}


def unknown_fields(kind: Kind, obj: Object) -> list[str]:
    """Paths of the fields that `kind` does not have; for custom kinds, of their metadata only."""
    type_name = type_of(kind)
    if type_name:
        return list(reader_of(type_name).unknown(obj, ""))
    return list(reader_of("ObjectMeta").unknown(obj.get("metadata"), "metadata"))


def unreadable(kind: Kind, why: str) -> Failure:
    return bad_request(f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: {why}')
