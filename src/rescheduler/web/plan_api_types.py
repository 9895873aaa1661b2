"""The types of the page's JSON API, version 1: plans, what-if, migrations, status and actions."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rescheduler.api.daemon_status import FailingPod, Halt, NodeInMaintenance, SuspectNode
from rescheduler.web.api_types import ApiInput, ApiView, Name, Percent, PodKey, RefusalGroup, RefusalView

__all__ = [
    "ActionKind",
    "ActionPreview",
    "ActionRequest",
    "ActionResult",
    "ApplyAction",
    "CancelAction",
    "ConfirmRequest",
    "DrainAction",
    "HistogramView",
    "MigrationDetail",
    "MigrationList",
    "MigrationTimelineEntry",
    "MigrationView",
    "MigrationsDelta",
    "MoveAction",
    "NodeChangeView",
    "NodeDrainView",
    "PauseAction",
    "PendingPodView",
    "PinnedPod",
    "PlanEvent",
    "PlanPageView",
    "PlannedMoveView",
    "PreviewedChange",
    "ResumeAction",
    "ResyncEvent",
    "SimilarNodes",
    "StatusView",
    "UndrainAction",
    "WaveView",
    "WhatIfRequest",
    "WhatIfView",
]

ActionKind = Literal["move", "apply", "cancel", "pause", "resume", "drain", "undrain"]


class PlannedMoveView(ApiView):
    pod: str
    uid: str
    source: str = msgspec.field(name="from")
    target: str | None = msgspec.field(name="to")
    workload: str
    strategy: str
    handover: str
    reason: str
    gain: float
    wave: Annotated[int, Meta(ge=1, description="The first wave is 1.")]
    group: str
    hop: bool


class NodeChangeView(ApiView):
    node: str
    change: str
    strategy: str
    reason: str


class WaveView(ApiView):
    """The load of every node that a wave changes, in percent of allocatable, when the wave is done."""

    wave: Annotated[int, Meta(ge=1, description="The first wave is 1.")]
    moves: int
    nodes: list[str]
    loads: Annotated[dict[str, list[float]], Meta(description="By resource, in the order of `nodes`.")]


class HistogramView(ApiView):
    """How many nodes have which load. Bin i starts at `edges[i]`; the last one is open."""

    resource: str
    edges: list[float]
    before: list[int]
    after: list[int]
    mean_before: float
    mean_after: float
    deviation_before: float
    deviation_after: float
    lowest_before: float
    lowest_after: float
    highest_before: float
    highest_after: float


class PlanPageView(ApiView):
    revision: int
    taken_at: datetime
    origin: Annotated[
        Literal["check", "page", "whatIf"],
        Meta(description="check: of the leader; page: made by this process for the page."),
    ]
    is_executed: Annotated[bool, Meta(description="false in a dry run, during a halt, and on standby.")]
    planning_seconds: float
    usage_source: str
    moves: list[PlannedMoveView]
    hidden_moves: Annotated[int, Meta(description="Moves in namespaces that the viewer may not see.")]
    changes: list[NodeChangeView]
    waves: list[WaveView]
    histograms: list[HistogramView]
    refused: list[RefusalGroup]
    assumptions: list[str]


class PinnedPod(ApiInput):
    pod: PodKey
    node: Name


class SimilarNodes(ApiInput):
    like: Name
    count: Annotated[int, Meta(ge=1, le=100)] = 1


class WhatIfRequest(ApiInput, omit_defaults=True):
    """Changes to make before planning again. Settings that are left out are as in the cluster."""

    cpu_threshold: Percent | None = None
    memory_threshold: Percent | None = None
    imbalance_threshold: Percent | None = None
    max_moves: Annotated[int, Meta(ge=1, le=2000)] | None = None
    strategies: Annotated[list[Name], Meta(max_length=16)] | None = None
    drain: Annotated[list[Name], Meta(max_length=100)] = msgspec.field(default_factory=list)
    pin: Annotated[list[PinnedPod], Meta(max_length=20)] = msgspec.field(default_factory=list)
    add_nodes: Annotated[list[SimilarNodes], Meta(max_length=10)] = msgspec.field(default_factory=list)


class WhatIfView(ApiView):
    request: WhatIfRequest
    code: Annotated[str, Meta(description="The request, for a link: GET /api/v1/what-if/{code}.")]
    plan: PlanPageView
    refused_pins: Annotated[list[RefusalView], Meta(description="Pods that can't go where asked.")]
    added_nodes: list[str]
    can_apply: Annotated[bool, Meta(description="false if the plan needs nodes that don't exist.")]
    notes: list[str]


# --- migrations


class MigrationTimelineEntry(ApiView):
    at: datetime
    source: Literal["migration", "condition", "event"]
    reason: str
    message: str


class MigrationView(ApiView):
    key: str
    uid: str
    namespace: str
    pod: str
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    strategy: str
    reason: str
    handover: str
    phase: Literal["Pending", "InProgress", "Completed", "Failed"]
    step: str
    steps: Annotated[list[str], Meta(description="The usual steps of its handover, in order.")]
    step_since: datetime | None
    deadline: Annotated[datetime | None, Meta(description="When it is rolled back if not handed over.")]
    created: datetime
    started: datetime | None
    handed_over: datetime | None
    finished: datetime | None
    retry_at: datetime | None
    attempts: int
    new_pod: str
    group: str
    failure: str
    message: str
    is_cancelled: bool
    ready_seconds_lost: Annotated[float | None, Meta(description="null until it is completed.")]
    eviction_seconds_lost: Annotated[
        float | None,
        Meta(description="Seconds that a plain eviction would have lost until the new pod was ready."),
    ]


class MigrationDetail(ApiView):
    migration: MigrationView
    timeline: list[MigrationTimelineEntry]
    notes: list[str]


class MigrationList(ApiView):
    migrations: Annotated[list[MigrationView], Meta(description="Newest first.")]
    total: Annotated[int, Meta(description="Number that match the filters.")]
    running: int
    ready_seconds_lost: Annotated[float, Meta(description="Sum over all that match.")]
    eviction_seconds_lost: Annotated[float, Meta(description="Likewise, of those where it is known.")]
    strategies: list[str]


class MigrationsDelta(ApiView):
    """SSE event `migrations`."""

    changed: list[MigrationView]
    removed: list[str]


class PlanEvent(ApiView):
    """SSE event `plan`: there is a new plan. Load it."""

    revision: int
    moves: int


class ResyncEvent(ApiView):
    """SSE event `resync`: load everything again, because changes are missing or the nodes have changed."""

    why: Literal["start", "nodes", "missed", "restarted"]
    epoch: str
    revision: int


class PendingPodView(ApiView):
    """A pod for which the scheduler found no node, and the room that moves make for it (MakeRoom)."""

    pod: str
    uid: str
    since: datetime | None
    message: Annotated[str, Meta(description="Why no node takes it, in the scheduler's words.")]
    room: Annotated[
        Literal["none", "planned", "making", "kept"],
        Meta(
            description="none: no room is made. planned: moves that have not started make it. making: pods "
            "move away, and the node is kept for the pod. kept: they are gone; the scheduler is next."
        ),
    ]
    node: Annotated[str, Meta(description="Where the room is; empty if there is none.")]
    moves: Annotated[int, Meta(description="Number of moves that make the room.")]
    moves_done: int
    refusal: Annotated[
        RefusalView | None, Meta(description="Why no room is made; null if that is not known.")
    ]


class NodeDrainView(ApiView):
    """A node whose pods other clients evict, such as `kubectl drain` or an autoscaler."""

    node: str
    reason: Annotated[str, Meta(description="Who evicts, as the latest move says.")]
    moving: Annotated[int, Meta(description="Moves that are not finished.")]
    moved: int
    failed: int
    left: Annotated[int, Meta(description="Pods that are still there, without those of DaemonSets.")]
    deadline: Annotated[datetime | None, Meta(description="When evictions are no longer held.")]


class StatusView(ApiView):
    """The status of rescheduler and of the cluster; also the SSE event `status`."""

    at: datetime
    leader: str
    leads: Annotated[bool, Meta(description="Whether this process is the leader.")]
    paused: bool
    paused_by: str
    paused_why: str
    dry_run: bool
    strategies: list[str]
    thresholds: Annotated[dict[str, float], Meta(description="cpu, memory, imbalance: percent.")]
    max_moves: int
    last_check: datetime | None
    next_check: datetime | None
    planned_moves: int
    running_migrations: int
    nodes: int
    nodes_not_ready: int
    halts: list[Halt]
    failing: list[FailingPod]
    suspects: list[SuspectNode]
    maintenance: list[NodeInMaintenance]
    drains: list[NodeDrainView]
    pending: Annotated[
        list[PendingPodView],
        Meta(description="Unschedulable pods, the most important ones first; at most 100."),
    ]
    pending_count: Annotated[int, Meta(description="Number of unschedulable pods.")]
    problems: Annotated[list[str], Meta(description="Kinds that this process can't read, as messages.")]


# --- actions


class MoveAction(ApiInput, tag_field="kind", tag="move"):
    pod: PodKey
    node: Name | None = None


class ApplyAction(ApiInput, tag_field="kind", tag="apply"):
    """Execute the current plan, or that of a what-if."""

    code: Annotated[str, Meta(max_length=8192)] = ""
    uids: (
        Annotated[
            list[Annotated[str, Meta(min_length=1, max_length=128)]],
            Meta(max_length=10000, description="Only the moves of these pods; null for all."),
        ]
        | None
    ) = None


class CancelAction(ApiInput, tag_field="kind", tag="cancel"):
    migration: PodKey


class PauseAction(ApiInput, tag_field="kind", tag="pause"):
    why: Annotated[str, Meta(max_length=500)] = ""


class ResumeAction(ApiInput, tag_field="kind", tag="resume"):
    pass


class DrainAction(ApiInput, tag_field="kind", tag="drain"):
    node: Name


class UndrainAction(ApiInput, tag_field="kind", tag="undrain"):
    node: Name


ActionRequest = (
    MoveAction | ApplyAction | CancelAction | PauseAction | ResumeAction | DrainAction | UndrainAction
)


class PreviewedChange(ApiView):
    """One request to the API server that the action makes."""

    verb: Literal["create", "patch", "delete"]
    kind: str
    namespace: str
    name: str
    manifest: Annotated[dict[str, Any], Meta(description="The object or the patch, as it is sent.")]


class ActionPreview(ApiView):
    kind: ActionKind
    summary: str
    changes: list[PreviewedChange]
    notes: list[str]
    refused: Annotated[list[RefusalView], Meta(description="Why the action is not possible; empty if it is.")]
    confirmation: Annotated[str, Meta(description="To be sent back to execute the action; empty if refused.")]
    expires_at: datetime | None


class ConfirmRequest(ApiInput):
    confirmation: Annotated[str, Meta(min_length=1, max_length=200)]


class ActionResult(ApiView):
    kind: ActionKind
    message: str
    migrations: Annotated[list[str], Meta(description="Keys of the migrations that it created.")]
