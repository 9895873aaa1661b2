"""The JSON of a pod: structs that name what is needed; the parser skips all else.

Parts that pods share stay unparsed, as they are looked up by their bytes. Such a `Raw` points into the
page it came from and would keep all of it alive, so it must not outlive the decoding of its pod.
"""

from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

__all__ = [
    "NO_BYTES",
    "ContainerResourceStatus",
    "ContainerStateFields",
    "ContainerStatusFields",
    "PodConditionFields",
    "PodFields",
    "PodResourceStatus",
]

Part = Raw | UnsetType
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
NO_BYTES: Final = Raw(b"")


class JsonFields(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    pass


class PodMetadataFields(JsonFields):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: Moment | None = None
    deletion_timestamp: Moment | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Raw = NO_BYTES
    annotations: dict[str, str] = {}
    owner_references: Raw = NO_BYTES
    finalizers: tuple[str, ...] = ()


class ContainerFields(JsonFields):
    name: str = ""
    image: str = ""
    ports: Part = UNSET
    resources: Part = UNSET
    restart_policy: str = ""
    restart_policy_rules: Part = UNSET


class PodSpecFields(JsonFields):
    """Encoded again without `node_name`, `volumes` and `affinity`, it is the key of the pod's shape."""

    node_name: str = ""
    volumes: list[dict[str, Raw]] = []
    """Each its name and its source."""
    affinity: Raw = NO_BYTES
    containers: list[ContainerFields] = []
    init_containers: list[ContainerFields] = []
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


class PodConditionFields(JsonFields):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Moment | None = None


class RunningFields(JsonFields):
    started_at: Moment | None = None


class WaitingFields(JsonFields):
    reason: str = ""
    message: str = ""


class TerminatedFields(JsonFields):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    started_at: Moment | None = None
    finished_at: Moment | None = None


class ContainerStateFields(JsonFields):
    running: RunningFields | None = None
    waiting: WaitingFields | None = None
    terminated: TerminatedFields | None = None


class ContainerStatusFields(JsonFields):
    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerStateFields | None = None
    last_state: ContainerStateFields | None = None
    allocated_resources: Part = UNSET
    resources: Part = UNSET


class PodStatusFields(JsonFields):
    phase: str = ""
    reason: str = ""
    conditions: list[PodConditionFields] = []
    container_statuses: list[ContainerStatusFields] = []
    init_container_statuses: list[ContainerStatusFields] = []
    start_time: Moment | None = None
    nominated_node_name: str = ""
    resize: str = ""
    allocated_resources: Part = UNSET
    resources: Part = UNSET


class PodFields(JsonFields):
    metadata: PodMetadataFields = msgspec.field(default_factory=PodMetadataFields)
    spec: PodSpecFields = msgspec.field(default_factory=PodSpecFields)
    status: PodStatusFields = msgspec.field(default_factory=PodStatusFields)


class ContainerResourceStatus(JsonFields):
    """What a status tells about the resources of one container."""

    name: str
    allocated_resources: Part = UNSET
    resources: Part = UNSET


class PodResourceStatus(JsonFields):
    """What a status tells about resources; encoded, it is part of the key of the pod's requests."""

    container_statuses: list[ContainerResourceStatus] = []
    allocated_resources: Part = UNSET
    resources: Part = UNSET
    conditions: list[PodConditionFields] = []
