"""What becomes of fields that a kind does not have: dropped anyway, but told or refused if asked for."""

from rescheduler.simulator.admission import decoding
from rescheduler.simulator.admission.lookup import Lookup
from rescheduler.simulator.custom import definitions
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.kinds import Kind

__all__ = ["warn_or_refuse"]


def warn_or_refuse(kind: Kind, obj: Object, field_validation: str, *, lookup: Lookup) -> list[str]:
    """`field_validation` as in the query: `Ignore`, `Warn` (also if empty) or `Strict`.

    Returns warnings for the answer's headers; raises a `Failure` of code 400 if it is strict.
    """
    if field_validation == "Ignore":
        return []
    unknown = decoding.unknown_fields(kind, obj)
    schema = definitions.schema_of(kind, lookup) if kind.custom else None
    if schema:
        unknown += schema.unknown_fields(obj)
    told = [f'unknown field "{path}"' for path in unknown]
    if told and field_validation == "Strict":
        raise decoding.unreadable(kind, f"strict decoding error: {', '.join(told)}")
    return told
