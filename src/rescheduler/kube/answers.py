"""From bytes that a server sent to what they mean: an object, or an error."""

from collections.abc import Callable
from typing import TypeVar

from rescheduler.kube import errors
from rescheduler.kube.call import Call
from rescheduler.kube.transport import Response
from rescheduler.kube.wire.codec import Undecodable
from rescheduler.kube.wire.status import Status
from rescheduler.kube.wire.statuses import status_from

__all__ = ["decoded", "refusal"]

R = TypeVar("R")


def decoded(call: Call, content_type: str, body: bytes, decode: Callable[[str, bytes], R]) -> R:
    try:
        return decode(content_type, body)
    except Undecodable as error:
        raise errors.Unreadable(call, str(error)) from error


def refusal(call: Call, response: Response, body: bytes) -> errors.KubeError:
    """The error that an answer outside 2xx means."""
    status = _status(response.headers.get("content-type", ""), body)
    return errors.from_answer(call, response.status, status, retry_after_s=_retry_after(response))


def _retry_after(response: Response) -> float | None:
    """In seconds; the other form that HTTP knows, a date, no API server uses."""
    value = response.headers.get("retry-after", "")
    return float(value) if value.isdecimal() else None


def _status(content_type: str, body: bytes) -> Status:
    """What a proxy says in the server's place, as HTML or plain text, becomes the message."""
    try:
        return status_from(content_type, body)
    except Undecodable:
        return Status(message=body[:200].decode(errors="replace").strip())
