"""Requests to and responses of the simulated API server, as bytes and without sockets."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

import msgspec

__all__ = [
    "JSON",
    "Object",
    "ServerRequest",
    "ServerResponse",
    "bytes_response",
    "decode",
    "encode",
    "object_response",
]

Object = dict[str, Any]
"""A Kubernetes object in its JSON form."""

JSON = "application/json"

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


class ServerResponse(NamedTuple):
    """A response: status, headers (names in lower case) and a body in chunks."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


def bytes_response(
    status: int, body: bytes, content_type: str = JSON, headers: Mapping[str, str] | None = None
) -> ServerResponse:
    """Return a response whose body is one chunk."""
    fixed = {"content-type": content_type, "content-length": str(len(body))}
    return ServerResponse(status, {**fixed, **(headers or {})}, _one(body))


def object_response(status: int, content: Object, headers: Mapping[str, str] | None = None) -> ServerResponse:
    return bytes_response(status, encode(content), headers=headers)


async def _one(body: bytes) -> AsyncIterator[bytes]:
    yield body


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A parsed request."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @classmethod
    def parse(cls, method: str, target: str, headers: Mapping[str, str], body: bytes) -> "ServerRequest":
        """Parse a request; `target` is path and query as on the request line."""
        path, _, query = target.partition("?")
        return cls(
            method=method,
            path=unquote(path),
            query=dict(parse_qsl(query, keep_blank_values=True)),
            headers={name.lower(): value for name, value in headers.items()},
            body=body,
        )

    def has_flag(self, option: str) -> bool:
        """Return whether a boolean query parameter is true."""
        return self.query.get(option, "").lower() in {"true", "1", "t"}
