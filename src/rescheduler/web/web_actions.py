"""Actions from the page: a preview of every object that would be created or changed, then the execution.

    preview ──▶ objects and a confirmation ──▶ confirm ──▶ the same requests, as the viewer

A confirmation belongs to one session, is used once and expires. The requests are made with the viewer's own
credentials, so that the API server decides. The leader executes the PodMigrations; a local page whose cluster
has no leader executes them itself, like `rescheduler move` does.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from rescheduler.api.daemon_status import Pause, encode_state
from rescheduler.api.well_known_names import (
    CORDONED_BY_ANNOTATION,
    MAINTENANCE_LABEL,
    REQUESTED_BY_ANNOTATION,
)
from rescheduler.cluster.node_record import NodeChange, in_maintenance, is_cordoned_by
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.daemon.manual_plans import manual_move_refusals, manual_plan
from rescheduler.daemon.node_drain import end_maintenance, maintenance_changes, start_maintenance
from rescheduler.daemon.own_objects import STATE_CONFIG_MAP, NoDaemonError, require_daemon, write_pause
from rescheduler.kube import errors
from rescheduler.kube.api_resources import Object
from rescheduler.kube.client import Client
from rescheduler.kube.event_recorder import log_event
from rescheduler.migrations.controller.plan_execution import PlanExecution
from rescheduler.planner.plan import Plan, Rejection
from rescheduler.strategies.node_maintenance import NodeMaintenance
from rescheduler.web.action_runner import ActionRunner, Answer, Perform
from rescheduler.web.node_page import refusal_view
from rescheduler.web.page_model import LivePage
from rescheduler.web.plan_api_types import (
    ActionKind,
    ActionPreview,
    ActionRequest,
    ActionResult,
    ApplyAction,
    CancelAction,
    DrainAction,
    MoveAction,
    PauseAction,
    PreviewedChange,
    ResumeAction,
    UndrainAction,
)
from rescheduler.web.plan_page import visible_plan
from rescheduler.web.web_authorization import TOKEN_AUDIENCE, Authorizer, accesses_of
from rescheduler.web.web_sessions import Session
from rescheduler.web.web_viewer import ActionForbidden, ActionImpossible, Viewer

__all__ = ["ActionService", "ActionUnknown", "PlanOfCode"]

log = logging.getLogger(__name__)

PlanOfCode = Callable[[str, Viewer], Awaitable[tuple[Plan, bool]]]
"""Returns the plan of a what-if, and whether it can be applied."""

_EXPIRES_S: Final = 120.0
_MOST_PREPARED: Final = 200


class ActionUnknown(Exception):  # noqa: N818 - says what the confirmation is
    """The confirmation is not known, was used, or has expired."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The effects of an action, before it is confirmed."""

    kind: ActionKind
    summary: str
    changes: tuple[PreviewedChange, ...] = ()
    perform: Perform | None = None
    refused: tuple[Rejection, ...] = ()
    notes: tuple[str, ...] = ()


class ActionService:
    def __init__(
        self, page: LivePage, authorizer: Authorizer, plan_of_code: PlanOfCode, *, executes: bool = False
    ) -> None:
        """Create the actions; with `executes`, this process executes migrations, if no other process does."""
        self._page = page
        self._authorizer = authorizer
        self._plan_of_code = plan_of_code
        self._executes = executes
        self._runner = ActionRunner(page.rescheduler, executes=executes)
        self._explaining = asyncio.Semaphore()
        self._prepared: OrderedDict[str, tuple[bytes, float, _Prepared]] = OrderedDict()

    async def close(self) -> None:
        """Cancel the actions that are still running; migrations that exist continue."""
        await self._runner.close()

    # -- preview

    async def preview(self, session: Session, viewer: Viewer, request: ActionRequest) -> ActionPreview:
        """Preview an action; raise `ActionForbidden`, `ActionImpossible`, `KubeError`, and `KeyError` for
        unknown objects."""
        self._require_kind(session, viewer, _kind_of(request))
        prepared = await self._prepare(viewer, request)
        await self._require(session, viewer, prepared)
        confirmation, expires_at = "", None
        if prepared.perform is not None and not prepared.refused:
            confirmation = secrets.token_urlsafe(32)
            expires_at = self._page.now() + timedelta(seconds=_EXPIRES_S)
            self._prepared[confirmation] = session.key, time.monotonic() + _EXPIRES_S, prepared
            while len(self._prepared) > _MOST_PREPARED:
                self._prepared.popitem(last=False)
        return ActionPreview(
            prepared.kind,
            prepared.summary,
            list(prepared.changes),
            list(prepared.notes),
            [refusal_view(each, viewer.visibility) for each in prepared.refused],
            confirmation,
            expires_at,
        )

    async def _require(self, session: Session, viewer: Viewer, prepared: _Prepared) -> None:
        """Raise `ActionForbidden` if the viewer may not do this."""
        self._require_kind(session, viewer, prepared.kind)
        home = self._page.namespace
        needed = set(accesses_of(prepared.kind, home)) if not prepared.changes else set()
        for each in prepared.changes:
            kind = "drain" if each.kind == "Node" else prepared.kind
            needed |= set(accesses_of(kind, home, each.namespace if kind != "drain" else ""))
        for access in sorted(needed, key=str):
            if not await self._authorizer.allowed(session.identity, [access]):
                where = f" in namespace {access.namespace}" if access.namespace else ""
                raise ActionForbidden(f"you may not {access.verb} {access.resource}{where}")

    def _require_kind(self, session: Session, viewer: Viewer, kind: ActionKind) -> None:
        """Raise `ActionForbidden` if the viewer may do this nowhere; before anything is computed for them."""
        if not viewer.may(kind):
            raise ActionForbidden(_not_allowed(self._authorizer, session, kind))

    async def _prepare(self, viewer: Viewer, request: ActionRequest) -> _Prepared:
        match request:
            case MoveAction():
                return await self._move(viewer, request)
            case ApplyAction():
                return await self._apply(viewer, request)
            case CancelAction():
                return self._cancel(viewer, request)
            case PauseAction():
                pause = Pause(paused=True, by=viewer.name, at=self._page.now(), why=request.why)
                return await self._pause("pause", pause, "Start no more moves, and finish the running ones.")
            case ResumeAction():
                pause = Pause(by=viewer.name, at=self._page.now())
                words = "End the pause, and clear halts caused by past failures."
                return await self._pause("resume", pause, words)
            case DrainAction():
                return self._drain(viewer, request)
            case UndrainAction():
                return self._undrain(request)

    async def _move(self, viewer: Viewer, request: MoveAction) -> _Prepared:
        snapshot = await self._page.snapshot()
        if request.pod not in snapshot.pods.row or not viewer.visibility.sees_key(request.pod):
            raise KeyError(f"pod {request.pod} not found")
        if request.node and request.node not in snapshot.nodes.row:
            raise KeyError(f"node {request.node} not found")
        async with self._explaining:
            refused = await asyncio.to_thread(
                manual_move_refusals, snapshot, request.pod, request.node, self._page.state
            )
        plan = manual_plan(snapshot, request.pod, request.node, viewer.name)
        summary = f"Move {request.pod} to {request.node or 'the best node'}."
        return replace(self._execution_of(viewer, "move", plan, summary), refused=tuple(refused))

    async def _apply(self, viewer: Viewer, request: ApplyAction) -> _Prepared:
        if request.code:
            plan, can_apply = await self._plan_of_code(request.code, viewer)
            if not can_apply:
                raise ActionImpossible("the plan needs nodes that don't exist")
        else:
            plan = (await self._page.revision()).plan
        plan = visible_plan(plan, viewer.visibility)
        if request.uids is not None:
            chosen = set(request.uids)
            plan = replace(plan, moves=tuple(each for each in plan.moves if each.uid in chosen), changes=())
        if not plan.moves and not plan.changes:
            raise ActionImpossible("the plan has no moves")
        count = len(plan.moves)
        summary = f"Make {count} {'move' if count == 1 else 'moves'} of the plan, wave by wave."
        return self._execution_of(viewer, "apply", plan, summary)

    def _execution_of(self, viewer: Viewer, kind: ActionKind, plan: Plan, summary: str) -> _Prepared:
        watched = self._page.rescheduler.watched
        annotations = {REQUESTED_BY_ANNOTATION: viewer.name} if viewer.name else {}
        preview = PlanExecution(self._page.rescheduler.client, watched, plan, annotations=annotations)
        changes = [*(_node_change(each.node, each.change, each.strategy) for each in plan.changes)]
        changes += [_creation(each) for each in preview.manifests()]
        hops = sum(move.hop for move in plan.moves)
        notes = ["Every move is checked again before it starts."]
        if hops:
            notes.append(f"{hops} of the pods stop on another node and move on from there.")

        async def perform(client: Client, answer: Answer) -> None:
            await self._runner.execute(kind, client, plan, answer, annotations)

        return _Prepared(kind, summary, tuple(changes), perform, notes=tuple(notes))

    def _cancel(self, viewer: Viewer, request: CancelAction) -> _Prepared:
        migration = self._page.migration(request.migration)
        if migration is None or not viewer.visibility.sees(migration.namespace):
            raise KeyError(f"migration {request.migration} not found")
        if migration.is_finished:
            raise ActionImpossible("the migration has finished")
        manifest = {"preconditions": {"uid": migration.uid}}
        change = PreviewedChange("delete", POD_MIGRATIONS.kind, migration.namespace, migration.name, manifest)

        async def perform(client: Client, answer: Answer) -> None:
            with contextlib.suppress(errors.NotFound):
                await client.delete(POD_MIGRATIONS, migration.key, uid=migration.uid)
            answer(ActionResult("cancel", "The migration is being cancelled.", [migration.key]))

        note = "The move is rolled back, or finished if the pod is already evicted."
        return _Prepared(
            "cancel", f"Cancel the move of {migration.pod_key}.", (change,), perform, notes=(note,)
        )

    async def _pause(self, kind: ActionKind, pause: Pause, summary: str) -> _Prepared:
        home, rescheduler = self._page.namespace, self._page.rescheduler
        try:
            await require_daemon(rescheduler.client, rescheduler.configuration, home)
        except NoDaemonError as error:
            raise ActionImpossible(str(error)) from error
        manifest = {"data": {"pause": encode_state(pause)}}

        async def perform(client: Client, answer: Answer) -> None:
            await write_pause(client, home, pause)
            answer(ActionResult(kind, "Paused." if pause.paused else "Resumed.", []))

        change = PreviewedChange("patch", "ConfigMap", home, STATE_CONFIG_MAP, manifest)
        return _Prepared(kind, summary, (change,), perform)

    def _drain(self, viewer: Viewer, request: DrainAction) -> _Prepared:
        node = self._page.rescheduler.watched.nodes.get(request.node)
        if node is None:
            raise KeyError(f"node {request.node} not found")
        if in_maintenance(node):
            raise ActionImpossible(f"{node.name} is already in maintenance")
        changes = [PreviewedChange("patch", "Node", "", node.name, maintenance_changes(viewer.name))]
        notes = ["All movable pods leave the node; each copy is ready before its pod is evicted."]
        is_enabled = self._page.state.policy.enables(NodeMaintenance.name)
        if not is_enabled and not self._executes:
            notes.append(
                "NodeMaintenance is not in enabledStrategies, so the daemon does not empty the node. "
                f"Enable it, or run: rescheduler drain {node.name}"
            )
        elif not node.unschedulable:
            notes.append("The node is cordoned first.")

        async def perform(client: Client, answer: Answer) -> None:
            await start_maintenance(client, [node.name], viewer.name)
            answer(ActionResult("drain", f"{node.name} is in maintenance.", []))
            if self._executes:
                await self._runner.drain(client, node.name, viewer.name)

        return _Prepared("drain", f"Drain {node.name}.", tuple(changes), perform, notes=tuple(notes))

    def _undrain(self, request: UndrainAction) -> _Prepared:
        node = self._page.rescheduler.watched.nodes.get(request.node)
        if node is None:
            raise KeyError(f"node {request.node} not found")
        changes = [_maintenance_end(node.name)]
        if is_cordoned_by(node, NodeMaintenance.name):
            changes.append(_node_change(node.name, NodeChange.UNCORDON, NodeMaintenance.name))

        async def perform(client: Client, answer: Answer) -> None:
            done = await end_maintenance(client, [node.name])
            answer(ActionResult("undrain", f"{node.name}: {done[node.name]}", []))

        return _Prepared("undrain", f"Return {node.name} to service.", tuple(changes), perform)

    # -- execution

    async def confirm(self, session: Session, viewer: Viewer, token: str, confirmation: str) -> ActionResult:
        """Execute the action that was previewed.

        Raises `ActionUnknown`, `ActionForbidden`, `ActionImpossible` and `KubeError`.
        """
        owner, expires_s, prepared = self._prepared.get(confirmation, (b"", 0.0, None))
        if prepared is None or owner != session.key or time.monotonic() > expires_s:
            raise ActionUnknown
        del self._prepared[confirmation]
        assert prepared.perform is not None
        await self._require(session, viewer, prepared)
        log_event(log, logging.INFO, "PageAction", prepared.summary, action=prepared.kind, user=viewer.name)
        return await self._runner.run(self._authorizer.client(token), prepared.perform)


def _kind_of(request: ActionRequest) -> ActionKind:
    kind: ActionKind = type(request).__struct_config__.tag  # type: ignore[assignment]
    return kind


def _not_allowed(authorizer: Authorizer, session: Session, kind: str) -> str:
    if authorizer.read_only:
        return "this page is read-only: start it with --allow-actions"
    if not session.identity.may_act:
        return f"your token is only for the audience {TOKEN_AUDIENCE}: log in with one for the API server"
    return f"you may not {kind}"


def _creation(item: Object) -> PreviewedChange:
    metadata = item["metadata"]
    return PreviewedChange("create", item["kind"], metadata["namespace"], metadata["name"], item)


def _maintenance_end(node: str) -> PreviewedChange:
    gone = {"labels": {MAINTENANCE_LABEL: None}, "annotations": {REQUESTED_BY_ANNOTATION: None}}
    manifest = {"metadata": gone}
    return PreviewedChange("patch", "Node", "", node, manifest)


def _node_change(node: str, change: NodeChange, strategy: str) -> PreviewedChange:
    is_cordon = change is NodeChange.CORDON
    manifest: Object = {
        "metadata": {"annotations": {CORDONED_BY_ANNOTATION: strategy if is_cordon else None}},
        "spec": {"unschedulable": True if is_cordon else None},
    }
    return PreviewedChange("patch", "Node", "", node, manifest)
