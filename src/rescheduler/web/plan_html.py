"""A plan as one HTML file that needs no server: the built page, with the answers of the API embedded.

The page looks up what it would ask the server for in the element `rescheduler-data`. A policy in the file
lets only the page's own script and style run, by their hashes.
"""

import base64
import hashlib
import html
import re
from typing import Any, Final

import msgspec

from rescheduler.api.daemon_status import program_version
from rescheduler.daemon.status_writer import balance_of
from rescheduler.strategies.cost_optimization import unschedulable_pods
from rescheduler.web.api_types import BalanceView, LoadSeries, PodList, SessionView
from rescheduler.web.cluster_grid import GridMarks, NodeNumbers, cluster_view
from rescheduler.web.migration_page import migration_list
from rescheduler.web.node_page import find_pods, node_detail, pod_matrix
from rescheduler.web.page_model import SavedPage
from rescheduler.web.plan_page import PlanRevision, plan_view
from rescheduler.web.static_files import StaticFiles
from rescheduler.web.web_events import status_view, visible_status
from rescheduler.web.web_openapi import API_PREFIX, MigrationQuery, PodQuery
from rescheduler.web.web_viewer import EVERYTHING_VISIBLE

__all__ = ["DATA_ELEMENT", "plan_html"]

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
    found = [find_pods(revision.snapshot, PodQuery(q=key), EVERYTHING_VISIBLE).pods[:1] for key in keys]
    return PodList([pod for pods in found for pod in pods], len(revision.snapshot.pods))


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
