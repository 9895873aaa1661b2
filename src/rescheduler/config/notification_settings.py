"""The settings `notifications`: receivers of halts, failures and finished maintenance."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from rescheduler.config.policy_blocks import BLOCK_CONFIG, http_address, is_confidential
from rescheduler.config.setting_rules import InvalidSetting, duration, one_of, text

__all__ = [
    "MAX_SINKS",
    "NotificationEvent",
    "NotificationFormat",
    "NotificationSink",
    "is_sink_address",
    "sink_faults",
]

MAX_SINKS = 10
_FILE = "the path of a file"


class NotificationFormat(StrEnum):
    CLOUD_EVENTS = "cloudevents"
    SLACK = "slack"


class NotificationEvent(StrEnum):
    HALTED = "Halted"
    HALT_ENDED = "HaltEnded"
    MIGRATION_FAILED = "MigrationFailed"
    RETRIES_EXHAUSTED = "RetriesExhausted"
    MAINTENANCE_FINISHED = "MaintenanceFinished"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSink:
    __pydantic_config__ = BLOCK_CONFIG

    name: Annotated[
        str,
        text(
            "a name of lower-case letters, digits and '-', at most 40 characters", r"[a-z0-9][a-z0-9-]{0,39}"
        ),
    ]
    """Name of the receiver in the log and in metrics, which never contain its address."""
    url: Annotated[str | None, http_address("https://alerts.example.com/rescheduler")] = None
    """Address to send to by HTTP POST. If it is a secret, as Slack's are, set `urlFile` instead."""
    url_file: Annotated[str | None, text(_FILE)] = None
    """File with the address, read at every send."""
    format: Annotated[NotificationFormat, one_of(NotificationFormat)] = NotificationFormat.CLOUD_EVENTS
    """`cloudevents`: CloudEvents 1.0 as JSON. `slack`: a message for Slack, Mattermost or Rocket.Chat."""
    events: tuple[Annotated[NotificationEvent, one_of(NotificationEvent)], ...] = tuple(NotificationEvent)
    """Events to send."""
    header_file: Annotated[str | None, text(_FILE)] = None
    """File with one further header, such as `Authorization: Bearer …`, sent over https only; read at every
    send."""
    ca_file: Annotated[str | None, text(_FILE)] = None
    """File with the trusted CA certificates; unset means those of the system."""
    timeout: Annotated[timedelta, duration(timedelta(seconds=1))] = timedelta(seconds=10)
    """How long one attempt may take."""

    def __post_init__(self) -> None:
        if (self.url is None) == (self.url_file is None):
            raise InvalidSetting("an entry with either url or urlFile")
        if self.url and self.header_file and not is_confidential(self.url):
            raise InvalidSetting("an https address, because headerFile would be sent unencrypted")


def sink_faults(sinks: Sequence[NotificationSink]) -> Iterator[tuple[int, str, str]]:
    """Yield the place of each faulty entry, its name and what is allowed instead."""
    counts = Counter(sink.name for sink in sinks)
    for place, sink in enumerate(sinks):
        if counts[sink.name] > 1:
            yield place, sink.name, "a name that no other entry has"
        elif place >= MAX_SINKS:
            yield place, sink.name, f"at most {MAX_SINKS} entries"


def is_sink_address(url: str) -> bool:
    """Return whether the URL is an address to send to; it may have a query, which can be secret, too."""
    if not url.isascii() or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        is_complete = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port or IPv6 address
        return False
    return is_complete and "@" not in parts.netloc
