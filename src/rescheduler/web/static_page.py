"""The built page: served file by file, and as one HTML file with a plan.

- Over HTTP, headers keep anything else from running in the page.
- The HTML file needs no server. The page reads the answers of the API from its element `rescheduler-data`. A
  policy in the file lets only the page's own script and style run, by their hashes.
"""

import base64
import hashlib
import html
import mimetypes
import re
import zlib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

import msgspec
from aiohttp import web

from rescheduler.api.daemon_status import program_version
from rescheduler.daemon.status_writer import balance_of
from rescheduler.strategies.cost_optimization import unschedulable_pods
from rescheduler.web.api_types import BalanceView, LoadSeries, PodList, SessionView
from rescheduler.web.cluster_grid import GridMarks, NodeNumbers, cluster_view
from rescheduler.web.migration_page import migration_list
from rescheduler.web.node_page import node_detail, pod_matrix, pod_summary
from rescheduler.web.page_model import SavedPage
from rescheduler.web.plan_page import PlanRevision, plan_view
from rescheduler.web.web_events import status_view, visible_status
from rescheduler.web.web_openapi import API_PREFIX, MigrationQuery
from rescheduler.web.web_viewer import EVERYTHING_VISIBLE

__all__ = [
    "CONTENT_SECURITY_POLICY",
    "DATA_ELEMENT",
    "SECURITY_HEADERS",
    "StaticFiles",
    "plan_html",
]

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
    """All files of the page, read once: there are few, and no other file can be requested."""

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


DATA_ELEMENT: Final = "rescheduler-data"
_MOST_EXPLAINED: Final = 100
"""Nodes and pods of the plan whose details are in the file."""
_ASSET: Final = re.compile(
    r'<script[^>]*\bsrc="\./(?P<script>[^"]+)"[^>]*></script>'
    r'|<link[^>]*\brel="stylesheet"[^>]*\bhref="\./(?P<style>[^"]+)"[^>]*>'
    r'|<link[^>]*\bhref="\./[^"]+"[^>]*>'
)


def plan_html(page: SavedPage, files: StaticFiles | None = None) -> str:
    """Return the page of a saved cluster's plan."""
    files = files or StaticFiles()
    answers = {path: msgspec.to_builtins(answer) for path, answer in _answers(page).items()}
    # In JSON, < occurs only inside of strings: so no text can end the element.
    data = msgspec.json.encode(answers).replace(b"<", b"\\u003c").decode()
    return _document(files, data)


def _document(files: StaticFiles, data: str) -> str:
    scripts: list[str] = []
    styles: list[str] = []

    def inline(match: re.Match[str]) -> str:
        if match["script"]:
            scripts.append(files.body(match["script"]).decode().replace("</script", "<\\/script"))
            return f'<script type="module">{scripts[-1]}</script>'
        if match["style"]:
            styles.append(files.body(match["style"]).decode())
            return f"<style>{styles[-1]}</style>"
        return ""

    text = _ASSET.sub(inline, files.body("index.html").decode())
    policy = (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    meta = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">'
    element = f'<script type="application/json" id="{DATA_ELEMENT}">{data}</script>'
    head, mark, rest = text.partition("<head>")
    text = f"{head}{mark}\n    {meta}{rest}" if mark else meta + text
    before, mark, after = text.partition("<body>")
    return f"{before}{mark}\n    {element}{after}" if mark else f"{text}{element}"


def _hashes(contents: list[str]) -> str:
    found = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in contents)
    return " ".join(f"'sha256-{each}'" for each in found) or "'none'"


def _answers(page: SavedPage) -> dict[str, Any]:
    """Return what the server would answer, by path."""
    revision = page.plan()
    snapshot, policy = revision.snapshot, page.state.policy
    resources, seen = policy.balance_resources, EVERYTHING_VISIBLE
    marks = GridMarks(frozenset(each.node for each in page.daemon_status().suspects), revision.nodes)
    session = SessionView(
        authenticated=True,
        mode="file",
        login="link",
        read_only=True,
        sees_nodes=True,
        sees_all_namespaces=True,
        cluster_name=page.cluster_name,
        version=program_version(),
    )
    answers: dict[str, Any] = {
        "session": session,
        "status": visible_status(status_view(page, snapshot, unschedulable_pods(snapshot)), seen),
        "cluster": cluster_view(
            snapshot,
            NodeNumbers.of(snapshot, marks),
            revision=1,
            epoch="file",
            balance=balance_of(snapshot, resources),
            usage_source=revision.usage_source,
        ),
        "plan": plan_view(revision, resources, seen),
        "balance": BalanceView(0.0, []),
        "migrations": migration_list((), MigrationQuery(), policy, seen),
        "pods": _moved_pods(revision),
        **_details(page, revision),
    }
    return {f"{API_PREFIX}/{path}": answer for path, answer in answers.items()}


def _moved_pods(revision: PlanRevision) -> PodList:
    keys = list(dict.fromkeys(move.pod for move in revision.plan.moves))[:_MOST_EXPLAINED]
    rows = [row for key in keys if (row := revision.snapshot.pods.row.get(key)) is not None]
    return PodList([pod_summary(revision.snapshot, row) for row in rows], len(revision.snapshot.pods))


def _details(page: SavedPage, revision: PlanRevision) -> dict[str, Any]:
    """Return the nodes and pods that the plan is about."""
    snapshot, policy, guarded = revision.snapshot, page.state.policy, page.state.guards
    no_history = LoadSeries([], {})
    found: dict[str, Any] = {}
    for name in sorted(revision.nodes & set(snapshot.nodes.row))[:_MOST_EXPLAINED]:
        found[f"nodes/{name}"] = node_detail(
            snapshot,
            policy,
            name,
            EVERYTHING_VISIBLE,
            history=no_history,
            maintenance=page.daemon_status().maintenance,
            steered=page.steered,
            guarded=guarded,
        )
    for key in list(dict.fromkeys(move.pod for move in revision.plan.moves))[:_MOST_EXPLAINED]:
        found[f"pods/{key}/explain"] = pod_matrix(
            snapshot, policy, key, EVERYTHING_VISIBLE, steered=page.steered, guarded=guarded
        )
    return found
