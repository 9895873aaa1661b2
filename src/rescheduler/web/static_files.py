"""The built page: its files, with the headers that keep anything else from running in it."""

import hashlib
import mimetypes
import zlib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from aiohttp import web

__all__ = ["CONTENT_SECURITY_POLICY", "SECURITY_HEADERS", "StaticFiles"]

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_FOLDER: Final = "static"
_INDEX: Final = "index.html"
_HASHED_FOLDER: Final = "assets/"
_COMPRESSED_FROM: Final = 1024
_PLACEHOLDER: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>rescheduler</title>"
    "<p>The page is not built in this checkout: run <code>make web</code>. The API is at "
    "<a href=/api/v1/openapi.json>/api/v1/openapi.json</a>."
)


@dataclass(frozen=True, slots=True)
class _File:
    body: bytes
    compressed: bytes | None
    content_type: str
    etag: str
    is_hashed: bool
    """Whether its name changes with its content, so that it can be cached forever."""


class StaticFiles:
    """All files of the page, read once: there are few, and nothing outside of them can be asked for."""

    def __init__(self, folder: Traversable | None = None) -> None:
        found = folder or files(__package__).joinpath(_FOLDER)
        self._files = {path: _file(path, body) for path, body in _read_all(found, "")}
        if _INDEX not in self._files:
            self._files[_INDEX] = _file(_INDEX, _PLACEHOLDER.encode())

    def body(self, path: str) -> bytes:
        """Return the content of the file; raise `KeyError`."""
        return self._files[path].body

    def response(self, request: web.Request) -> web.Response:
        file = self._files.get(request.path.lstrip("/") or _INDEX)
        if file is None:
            raise web.HTTPNotFound(text="there is no such file")
        headers = {
            "ETag": file.etag,
            "Cache-Control": "public, max-age=31536000, immutable" if file.is_hashed else "no-cache",
            "Content-Type": file.content_type,
            "Vary": "Accept-Encoding",
        }
        if request.headers.get("If-None-Match") == file.etag:
            return web.Response(status=304, headers=headers)
        if file.compressed is not None and "gzip" in request.headers.get("Accept-Encoding", ""):
            return web.Response(body=file.compressed, headers={**headers, "Content-Encoding": "gzip"})
        return web.Response(body=file.body, headers=headers)


def _read_all(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    if not folder.is_dir():
        return []
    found = []
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if each.is_dir():
            found += _read_all(each, f"{prefix}{each.name}/")
        else:
            found.append((f"{prefix}{each.name}", each.read_bytes()))
    return found


def _file(path: str, body: bytes) -> _File:
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    is_text = kind.startswith("text/") or kind in {
        "application/javascript",
        "application/json",
        "image/svg+xml",
    }
    packer = zlib.compressobj(9, wbits=31)
    compressed = packer.compress(body) + packer.flush() if is_text and len(body) > _COMPRESSED_FROM else None
    digest = hashlib.sha256(body).hexdigest()[:32]
    return _File(
        body,
        compressed,
        f"{kind}; charset=utf-8" if is_text else kind,
        f'"{digest}"',
        path.startswith(_HASHED_FOLDER),
    )
