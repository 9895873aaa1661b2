"""What goes into the simulated API server and what comes out: bytes, without a socket in sight."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec

__all__ = ["Answer", "Object", "Question", "decode", "encode"]

Object = dict[str, Any]
"""A Kubernetes object as JSON has it."""

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


class Answer(NamedTuple):
    """Status, headers (names in lower case) and a body that arrives in chunks."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


@dataclass(frozen=True, slots=True)
class Question:
    """A request, taken apart once."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @classmethod
    def parse(cls, method: str, target: str, headers: Mapping[str, str], body: bytes) -> "Question":
        """`target` is path and query as on the request line."""
        parts = urlsplit(target)
        return cls(
            method=method,
            path=parts.path,
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
            headers={name.lower(): value for name, value in headers.items()},
            body=body,
        )
