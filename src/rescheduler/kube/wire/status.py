"""`Status`: how the API server says that something went wrong, the same in JSON and in protobuf."""

import msgspec

__all__ = ["Cause", "Status", "StatusDetails"]


class Cause(msgspec.Struct, frozen=True):
    """One fault: a field of a refused object, or the budget that refuses an eviction."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """Which object the status is about, and why in detail."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True):
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails = StatusDetails()
