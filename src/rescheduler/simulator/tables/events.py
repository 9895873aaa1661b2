"""Events, as the core group and `events.k8s.io` both show them."""

from datetime import datetime

from rescheduler.simulator.exchange import Object
from rescheduler.simulator.tables.ages import since
from rescheduler.simulator.tables.layout import NAME, Cell, Column, Layout, each, wide
from rescheduler.simulator.tables.phrases import name

__all__ = ["EVENT"]


def _cells(event: Object, now: datetime) -> list[Cell]:
    about = event.get("involvedObject") or event.get("regarding") or {}
    first, last, count = _times(event, now)
    return [
        last,
        event.get("type", ""),
        event.get("reason", ""),
        "/".join(part for part in (about.get("kind", "").lower(), about.get("name", "")) if part),
        about.get("fieldPath", ""),
        _source(event),
        (event.get("message") or event.get("note") or "").strip(),
        first,
        count,
        name(event),
    ]


def _times(event: Object, now: datetime) -> tuple[str, str, int]:
    """First and last seen, and how often: told by old and new recorders in different fields."""
    first = since(
        event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp") or event.get("eventTime"), now
    )
    if series := event.get("series"):
        return first, since(series.get("lastObservedTime"), now), series.get("count", 0)
    last = event.get("lastTimestamp") or event.get("deprecatedLastTimestamp")
    count = event.get("count") or event.get("deprecatedCount") or 1
    return first, since(last, now) if last else first, count


def _source(event: Object) -> str:
    source = event.get("source") or event.get("deprecatedSource") or {}
    component = source.get("component") or event.get("reportingComponent") or event.get("reportingController")
    instance = source.get("host") or event.get("reportingInstance")
    return f"{component or ''}, {instance}" if instance else component or ""


EVENT = Layout(
    (
        Column("Last Seen", description="How long ago it last happened."),
        Column("Type", description="Normal or Warning."),
        Column("Reason", description="What happened, in one word."),
        Column("Object", description="To what it happened."),
        wide("Subobject", "To which part of it."),
        wide("Source", "Who tells."),
        Column("Message", description="What happened, in a sentence."),
        wide("First Seen", "How long ago it first happened."),
        wide("Count", "How often it happened."),
        NAME._replace(priority=1),
    ),
    each(_cells),
)
