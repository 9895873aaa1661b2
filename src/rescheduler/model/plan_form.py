"""A plan as JSON has it: what `plan -o json` prints, `--save` writes and `apply` reads.

The names are a public contract; `docs/plan.schema.json` is generated from these types. Fields may be added,
but none changes its meaning or goes without another `apiVersion`.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from rescheduler.model.plan import NodeChange

__all__ = [
    "API_VERSION",
    "KIND",
    "ChangeForm",
    "LoadForm",
    "MoveForm",
    "NodeForm",
    "PlanForm",
    "RefusalForm",
    "SpreadForm",
    "SummaryForm",
]

API_VERSION: Final = "rescheduler.dev/v1alpha1"
KIND: Final = "Plan"

PodKey = Annotated[str, Meta(pattern="^[^/]+/[^/]+$", description="namespace/name")]
Text = Annotated[str, Meta(min_length=1)]
Percent = Annotated[float, Meta(description="percent of allocatable")]


class _Form(msgspec.Struct, rename="camel"):
    pass


class MoveForm(_Form, forbid_unknown_fields=True):
    """One pod to another node. Moves are executed in this order, or wave by wave."""

    pod: PodKey
    uid: Annotated[str, Meta(min_length=1, description="of the pod: another of the same name is not moved")]
    source: Annotated[Text, Meta(description="the node it is on")] = msgspec.field(name="from")
    target: Annotated[Text | None, Meta(description="null: to be chosen when it is executed")] = (
        msgspec.field(name="to")
    )
    strategy: Text
    handover: Annotated[
        Literal["Adopt", "Copy", "Evict"],
        Meta(description="Adopt and Copy make before they break; Evict does not"),
    ]
    reason: Annotated[str, Meta(description="in words and numbers, for people")]
    gain: Annotated[float, Meta(description="relative to what the strategy improves: 0.05 is 5 %")]
    wave: Annotated[int, Meta(ge=0, description="moves of one wave may be under way together")] = 0
    group: Annotated[str, Meta(description="pods of one group are handed over together, or not at all")] = ""
    hop: Annotated[bool, Meta(description="only a stop: a later move of the same uid takes it on")] = False


class ChangeForm(_Form, forbid_unknown_fields=True):
    """What is to be done to a node."""

    node: Text
    change: NodeChange
    strategy: Text
    reason: str = ""


class LoadForm(_Form):
    before: Percent
    after: Annotated[float, Meta(description="percent of allocatable, when all is done")]


class NodeForm(_Form, omit_defaults=True):
    """The loads of one node."""

    name: Text
    cpu: LoadForm | None = None
    memory: LoadForm | None = None
    pods: LoadForm | None = None
    others: Annotated[dict[str, LoadForm], Meta(description="further resources, by name")] = {}


class RefusalForm(_Form, omit_defaults=True):
    """A pod that was not moved though something spoke for it; or a node; or, with neither, the whole plan."""

    pod: PodKey | None = None
    node: Text | None = None
    reason: Annotated[str, Meta(description="for programs: one word of a documented list")] = ""
    detail: Annotated[str, Meta(description="for people")] = ""
    by: Annotated[str, Meta(description="the object that is the cause, if it is another one")] = ""


class SpreadForm(_Form):
    """Over all nodes, in percent of allocatable."""

    mean: float
    deviation: Annotated[float, Meta(description="standard deviation")]
    lowest: float
    highest: float


class OutlookForm(_Form):
    before: SpreadForm
    after: SpreadForm


class SummaryForm(_Form):
    """In short. Of a great many refusals a plan lists only some; all are counted here."""

    moves: int = 0
    waves: int = 0
    by_strategy: dict[str, int] = {}
    refused: Annotated[dict[str, int], Meta(description="how many pods and nodes, by reason")] = {}
    load: Annotated[dict[str, OutlookForm], Meta(description="by resource")] = {}
    assumptions: Annotated[
        list[str], Meta(description="what was taken for granted because the cluster did not say")
    ] = []


class PlanForm(_Form):
    """What one check proposes, and what it expects of it."""

    api_version: Literal["rescheduler.dev/v1alpha1"]
    kind: Literal["Plan"]
    taken_at: Annotated[str, Meta(description="when the cluster looked so, in RFC 3339")]
    moves: list[MoveForm]
    changes: list[ChangeForm] = []
    nodes: list[NodeForm] = []
    refused: list[RefusalForm] = []
    summary: SummaryForm = msgspec.field(default_factory=SummaryForm)
