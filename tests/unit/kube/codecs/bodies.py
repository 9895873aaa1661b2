"""Bodies and streams as an API server sends them, in either encoding."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.protobuf_writer import enveloped, varint
from rescheduler.kube.codecs.codec import Codec, WatchEvent
from tests.unit.kube.codecs.manifests import SCHEMA, Json

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
WATCH = f"{PROTOBUF};stream=watch"
CAPTURED = Path(__file__).with_name("captured")


def pod(name: str, **meta: Any) -> Json:
    return {"metadata": {"name": name, "namespace": "shop", "resourceVersion": "7", **meta}}


def body_of(form: str, listed: Json) -> tuple[str, bytes]:
    if form == "json":
        return JSON, json.dumps(listed).encode()
    return PROTOBUF, enveloped(SCHEMA.encode("PodList", listed), "PodList")


def stream_of(form: str, events: list[Json]) -> tuple[str, bytes]:
    if form == "json":
        return JSON, b"".join(json.dumps(event).encode() + b"\n" for event in events)
    return WATCH, b"".join(map(frame, events))


def frame(event: Json) -> bytes:
    kind = "Status" if event["type"] == "ERROR" else "Pod"
    inner = enveloped(SCHEMA.encode(kind, event["object"]), kind)
    content = SCHEMA.encode("WatchEvent", {"type": event["type"]})
    holder = b"\x0a" + varint(len(inner)) + inner
    content += b"\x12" + varint(len(holder)) + holder
    return len(content).to_bytes(4, "big") + content


def watched(codec: Codec[Any], content_type: str, chunks: list[bytes]) -> list[WatchEvent[Any]]:
    decoder = codec.watch_decoder(content_type)
    return [event for chunk in chunks for event in decoder.feed(chunk)]


both = pytest.mark.parametrize("form", ["json", "protobuf"])
