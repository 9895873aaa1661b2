"""The types of the page's JSON API, version 1: session, cluster, nodes and pods.

The OpenAPI description is generated from these types and those in `plan_api_types`. Fields may be added; none
changes its meaning or disappears without a new version. Texts that come from the cluster are plain text: the
page must never use them as markup.
"""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rescheduler.api.daemon_status import NodeInMaintenance, ResourceBalance

__all__ = [
    "API_VERSION",
    "MAX_NAME",
    "ApiInput",
    "ApiView",
    "BalancePoint",
    "BalanceView",
    "ClusterView",
    "ErrorView",
    "LabelColumn",
    "LabelKey",
    "LoadSeries",
    "LoginRequest",
    "Name",
    "NodeConditionView",
    "NodeDetail",
    "NodeGridColumns",
    "NodePodView",
    "NodesDelta",
    "Percent",
    "PodKey",
    "PodList",
    "PodMatrix",
    "PodSummary",
    "RefusalGroup",
    "RefusalView",
    "RefusedSubject",
    "ResourceColumn",
    "RuleColumn",
    "SessionView",
    "VerdictRow",
]

API_VERSION = "v1"

MAX_NAME = 253
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
PodKey = Annotated[str, Meta(min_length=3, max_length=2 * MAX_NAME + 1, pattern="^[^/]+/[^/]+$")]
Percent = Annotated[float, Meta(ge=0, le=100)]


class ApiView(msgspec.Struct, rename="camel"):
    """The base of all types that the server sends."""


class ApiInput(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The base of all types that clients send. Unknown fields are refused, so that no typo is ignored."""


class ErrorView(ApiView):
    """Why a request was refused, and what to do about it."""

    reason: Annotated[str, Meta(description="For programs: NotFound, Forbidden, InvalidRequest, …")]
    message: Annotated[str, Meta(description="For people.")]


# --- session


class LoginRequest(ApiInput):
    token: Annotated[str, Meta(min_length=1, max_length=16384)]


class SessionView(ApiView):
    """Who the viewer is, what they may see and do, and what this server is."""

    authenticated: bool
    mode: Literal["cluster", "file", "demo"]
    """`cluster`: a live cluster. `file`: a saved one that never changes. `demo`: a simulated one."""
    login: Annotated[
        Literal["link", "token"],
        Meta(description="link: by the link that the command printed; token: by a bearer token."),
    ]
    read_only: Annotated[bool, Meta(description="No action is offered to any user.")]
    user: str = ""
    actions: Annotated[
        dict[str, bool],
        Meta(description="By action: whether the viewer may do it somewhere in the cluster."),
    ] = {}
    sees_nodes: bool = False
    sees_all_namespaces: bool = False
    namespaces: Annotated[list[str], Meta(description="Namespaces that the viewer sees, unless all.")] = []
    csrf_token: Annotated[str, Meta(description="To be sent as the header X-Rescheduler-CSRF.")] = ""
    cluster_name: str = ""
    version: str = ""
    replica: Annotated[str, Meta(description="The process that answers.")] = ""
    is_leader: bool = False


# --- cluster


class ResourceColumn(ApiView):
    """One resource of all nodes. `cpu` is in thousandths of a core, others in their base unit."""

    name: str
    allocatable: list[int]
    requests: list[int]
    usage: Annotated[list[int], Meta(description="The load that plans use: measured usage, else requests.")]


class LabelColumn(ApiView):
    """The values of one label over all nodes: node i has `values[index[i]]`; -1 where it has none."""

    key: str
    values: list[str]
    index: list[int]


class LabelKey(ApiView):
    key: str
    values: Annotated[int, Meta(description="Number of distinct values.")]
    nodes: Annotated[int, Meta(description="Number of nodes that have it.")]


class NodeGridColumns(ApiView):
    """All nodes as columns, sorted by name."""

    names: list[str]
    resources: list[ResourceColumn]
    pods: Annotated[list[int], Meta(description="Number of pods.")]
    flags: Annotated[
        list[int],
        Meta(description="Bits: 1 not Ready, 2 cordoned, 4 in maintenance, 8 suspect, 16 in the plan."),
    ]
    zone: LabelColumn
    pool: LabelColumn


class ClusterView(ApiView):
    revision: Annotated[int, Meta(description="Deltas with a higher number apply to it.")]
    epoch: Annotated[str, Meta(description="Another one means another process: load everything again.")]
    taken_at: datetime
    nodes: NodeGridColumns
    label_keys: list[LabelKey]
    balance: list[ResourceBalance]
    usage_source: str
    pod_count: int
    namespace_count: int
    staleness_seconds: Annotated[float, Meta(description="How old the oldest cache is.")]


class NodesDelta(ApiView):
    """SSE event `nodes`: new numbers of some rows of the cluster with the same names."""

    revision: int
    taken_at: datetime
    rows: list[int]
    resources: Annotated[list[ResourceColumn], Meta(description="Values of these rows, in their order.")]
    pods: list[int]
    flags: list[int]
    balance: list[ResourceBalance]


class BalancePoint(ApiView):
    at: Annotated[float, Meta(description="Seconds since 1970.")]
    resource: str
    mean: float
    deviation: float
    lowest: float
    highest: float


class BalanceView(ApiView):
    """The balance of the cluster over time, since this process started to watch it."""

    interval_seconds: float
    points: list[BalancePoint]


# --- refusals, nodes and pods


class RefusalView(ApiView):
    reason: str
    meaning: str
    remedy: str
    detail: str = ""
    by: str = ""


class RefusedSubject(ApiView):
    subject: str
    by: str
    detail: str


class RefusalGroup(ApiView):
    """All that is refused for one reason."""

    reason: str
    meaning: str
    remedy: str
    count: int
    examples: list[RefusedSubject]


class NodeConditionView(ApiView):
    type: str
    status: str
    reason: str
    message: str
    since: datetime | None


class NodePodView(ApiView):
    """A pod on a node."""

    pod: str
    uid: str
    workload: Annotated[str, Meta(description="`Deployment/namespace/name`; empty without one.")]
    phase: str
    ready: bool
    priority: int
    created: datetime | None
    requests: dict[str, int]
    usage: dict[str, int]
    may_move: bool
    handover: Literal["Adopt", "Copy", "Evict"] | None
    targets: Annotated[int, Meta(description="Number of nodes that could take it.")]
    kept_by: list[RefusalView]


class LoadSeries(ApiView):
    """Load in percent of allocatable over time; `at` has seconds since 1970."""

    at: list[float]
    loads: Annotated[dict[str, list[float]], Meta(description="By resource.")]


class NodeDetail(ApiView):
    name: str
    labels: dict[str, str]
    taints: list[str]
    ready: bool
    schedulable: bool
    in_maintenance: bool
    suspect: Annotated[list[str], Meta(description="Workloads that fail there; empty if not suspect.")]
    maintenance: NodeInMaintenance | None
    conditions: list[NodeConditionView]
    created: datetime | None
    allocatable: dict[str, int]
    requests: dict[str, int]
    usage: dict[str, int]
    load: LoadSeries
    pods: list[NodePodView]
    hidden_pods: Annotated[int, Meta(description="Pods of namespaces that the viewer may not see.")]
    could_come: int
    all_asked: bool
    could_come_examples: list[str]
    takes_none: Annotated[str, Meta(description="Why no moved pod comes here; empty if some can.")]
    stays: Annotated[list[RefusalGroup], Meta(description="Why pods keep the node from being emptied.")]
    assumptions: list[str]


class PodSummary(ApiView):
    pod: str
    uid: str
    node: str
    workload: str
    phase: str
    ready: bool
    moving: bool


class PodList(ApiView):
    pods: list[PodSummary]
    total: Annotated[int, Meta(description="Number of pods that match.")]


class RuleColumn(ApiView):
    """One column of the matrix."""

    rule: Annotated[str, Meta(description="The scheduler's plugin, or a rule of rescheduler.")]
    reason: Annotated[str, Meta(description="In the scheduler's words.")]
    is_schedulers: Annotated[bool, Meta(description="false: a rule of rescheduler.")]
    nodes: Annotated[int, Meta(description="Number of nodes that it forbids.")]


class VerdictRow(ApiView):
    """Nodes that the same rules forbid."""

    forbidden_by: Annotated[list[int], Meta(description="Columns that forbid them; empty if the pod fits.")]
    nodes: list[str]
    details: Annotated[
        dict[str, list[str]],
        Meta(description="By node, one text per column of `forbidden_by`; only of the first nodes."),
    ]


class PodMatrix(ApiView):
    """Why a pod may or may not move, and which rule forbids which node."""

    pod: str
    uid: str
    node: str
    workload: str
    may_move: bool
    in_window: bool
    handover: Literal["Adopt", "Copy", "Evict"] | None
    why: Annotated[str, Meta(description="Why this handover.")]
    kept_by: list[RefusalView]
    kept_in_maintenance_by: list[RefusalView]
    group: str
    members: list[str]
    node_count: int
    columns: list[RuleColumn]
    rows: list[VerdictRow]
    trouble: Annotated[str, Meta(description="How the pod fails; empty if it does not.")]
    tries: int
    allowed_tries: int | None
    next: Annotated[str, Meta(description="The next step for a failing pod.")]
    assumptions: list[str]
