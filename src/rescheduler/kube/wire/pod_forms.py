"""The JSON of a pod: structs that name what is needed; the parser skips all else.

Parts that pods share stay unparsed, as they are looked up by their bytes. Such a `Raw` points into the
page it came from and would keep all of it alive, so it must not outlive the decoding of its pod.
"""

from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

__all__ = ["NOTHING", "Condition", "ContainerStatusForm", "Grant", "Pod", "State", "Told"]

Part = Raw | UnsetType
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
NOTHING: Final = Raw(b"")


class Form(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    pass


class Meta(Form):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: Moment | None = None
    deletion_timestamp: Moment | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Raw = NOTHING
    annotations: dict[str, str] = {}
    owner_references: Raw = NOTHING
    finalizers: tuple[str, ...] = ()


class ContainerForm(Form):
    name: str = ""
    image: str = ""
    ports: Part = UNSET
    resources: Part = UNSET
    restart_policy: str = ""
    restart_policy_rules: Part = UNSET


class Spec(Form):
    """Encoded again without `node_name`, `volumes` and `affinity`, it is the key of the pod's shape."""

    node_name: str = ""
    volumes: list[dict[str, Raw]] = []
    """Each its name and its source."""
    affinity: Raw = NOTHING
    containers: list[ContainerForm] = []
    init_containers: list[ContainerForm] = []
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    node_selector: Part = UNSET
    host_network: bool = False
    scheduler_name: str = ""
    tolerations: Part = UNSET
    priority_class_name: str = ""
    priority: int = 0
    preemption_policy: str = ""
    readiness_gates: Part = UNSET
    overhead: Part = UNSET
    topology_spread_constraints: Part = UNSET
    host_users: bool | None = None
    scheduling_gates: Part = UNSET
    resource_claims: Part = UNSET
    resources: Part = UNSET
    scheduling_group: Part = UNSET


class Condition(Form):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Moment | None = None


class RunningForm(Form):
    started_at: Moment | None = None


class WaitingForm(Form):
    reason: str = ""
    message: str = ""


class TerminatedForm(Form):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    started_at: Moment | None = None
    finished_at: Moment | None = None


class State(Form):
    running: RunningForm | None = None
    waiting: WaitingForm | None = None
    terminated: TerminatedForm | None = None


class ContainerStatusForm(Form):
    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: State | None = None
    last_state: State | None = None
    allocated_resources: Part = UNSET
    resources: Part = UNSET


class StatusForm(Form):
    phase: str = ""
    reason: str = ""
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatusForm] = []
    init_container_statuses: list[ContainerStatusForm] = []
    start_time: Moment | None = None
    nominated_node_name: str = ""
    resize: str = ""
    allocated_resources: Part = UNSET
    resources: Part = UNSET


class Pod(Form):
    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: Spec = msgspec.field(default_factory=Spec)
    status: StatusForm = msgspec.field(default_factory=StatusForm)


class Grant(Form):
    """What a status tells about the resources of one container."""

    name: str
    allocated_resources: Part = UNSET
    resources: Part = UNSET


class Told(Form):
    """What a status tells about resources; encoded, it is part of the key of the pod's requests."""

    container_statuses: list[Grant] = []
    allocated_resources: Part = UNSET
    resources: Part = UNSET
    conditions: list[Condition] = []
