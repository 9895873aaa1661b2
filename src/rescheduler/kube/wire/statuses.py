"""The `Status` in a refusal, in whichever encoding the server chose to refuse."""

from rescheduler.kube.wire import json_frames, protobuf_frames
from rescheduler.kube.wire.dual import is_protobuf
from rescheduler.kube.wire.status import Status

__all__ = ["status_from"]


def status_from(content_type: str, body: bytes) -> Status:
    """Raises `Undecodable` for what is no Status, such as the page of a proxy."""
    if is_protobuf(content_type):
        return protobuf_frames.status(content_type, body)
    return json_frames.status(content_type, body)
