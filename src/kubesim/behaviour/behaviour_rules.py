"""The rules that describe how pods and nodes behave, for simulated kubelets and those of the testbed.

    seed: 7
    pods:
    - match: {namespace: shop, labels: {app: web}}
      startup: 5s                                   # then the container runs …
      readiness: 20s                                # … and this much later it is ready
      usage: {cpu: {mean: 60%, swing: 30%, every: 24h}, memory: 80%}
    - match: {image: "*/importer:*"}
      run: {lasts: 3s, exitCode: 1, times: 4}       # a crash loop that ends after four crashes
    - match: {node: worker-3}
      blocked: ErrImagePull
    nodes:
    - match: {name: worker-5}
      dead: {after: 10m, until: 15m}

A rule sets some aspects of the containers that it matches. **For each aspect, the first rule that matches and
sets it counts**; aspects that no rule sets are as in `ORDINARY`. So put specific rules before general ones.
Names match exactly or with the wildcards `*`, `?` and `[…]`; labels that are not named may have any value.
Times in the API are whole seconds, so events are accurate to about a second.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from kubesim.behaviour.usage_patterns import (
    NOTHING,
    Duration,
    Pattern,
    PositiveDuration,
    Termination,
    UsagePattern,
)

__all__ = [
    "KILLED_EXIT_CODE",
    "ORDINARY",
    "Behaviour",
    "BlockedRule",
    "ContainerRun",
    "EvictionRule",
    "NodeMatch",
    "NodeOutage",
    "NodeRule",
    "PodMatch",
    "PodRule",
    "ReadinessRule",
    "UsageRule",
]

OOM_KILLED = "OOMKilled"
KILLED_EXIT_CODE = 137


# -- short forms, as people write them


def _readiness(value: object) -> object:
    if value == "never":
        return {"after": None}
    return {"after": value} if isinstance(value, str | timedelta) else value


def _blocked(value: object) -> object:
    return {"reason": value} if isinstance(value, str) else value


def _outages(value: object) -> object:
    if value == "always" or value is True:
        return ({},)
    return (value,) if isinstance(value, dict) else value


class BehaviourModel(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        arbitrary_types_allowed=True,
    )


class ReadinessRule(BehaviourModel):
    """Ready this long after the container started, or `never`; with `ready` and `unready`, it alternates."""

    after: Duration | None = NOTHING
    """None: never."""
    ready: PositiveDuration | None = None
    unready: PositiveDuration | None = None

    @model_validator(mode="after")
    def _both_or_none(self) -> "ReadinessRule":
        if (self.ready is None) != (self.unready is None):
            raise ValueError("`ready` and `unready` must be given together")
        return self


class ContainerRun(BehaviourModel):
    """How long a container runs and how it ends. Without `lasts` it runs forever.

    The pod's restartPolicy decides whether it is started again, with a kubelet's back-off.
    """

    lasts: Duration | None = None
    exit_code: int = Field(default=0, ge=0, le=255)
    reason: str = ""
    """The reason as kubectl shows it; `OOMKilled` sets its exit code."""
    times: int | None = Field(default=None, ge=1)
    """How often it ends like this; the next run succeeds."""

    @model_validator(mode="before")
    @classmethod
    def _killed(cls, value: object) -> object:
        if isinstance(value, dict) and value.get("reason") == OOM_KILLED:
            return {"exitCode": KILLED_EXIT_CODE, **value}
        return value

    @property
    def shown_reason(self) -> str:
        return self.reason or ("Error" if self.exit_code else "Completed")


class BlockedRule(BehaviourModel):
    """Why a container does not start. Image errors are retried as a kubelet does."""

    reason: Literal[
        "ContainerCreating",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    ]
    message: str = ""
    heals: PositiveDuration | None = None
    """Starts after this long."""

    @property
    def pulls(self) -> bool:
        return self.reason in {"ErrImagePull", "ImagePullBackOff"}


class EvictionRule(BehaviourModel):
    """The kubelet evicts the whole pod this long after it accepted it: phase Failed."""

    after: Duration = NOTHING
    reason: Pattern = "Evicted"
    message: str = "The node was low on resource: memory."


class UsageRule(BehaviourModel):
    """What a container uses while it runs, or a node beside its pods; never above a container's limit."""

    cpu: UsagePattern | None = None
    memory: UsagePattern | None = None


class PodMatch(BehaviourModel):
    node: Pattern = "*"
    namespace: Pattern = "*"
    image: Pattern = "*"
    container: Pattern = "*"
    labels: Mapping[str, Pattern] = {}


class PodRule(BehaviourModel):
    """Some aspects of the containers that it matches; an aspect that is None is left to other rules."""

    match: PodMatch = PodMatch()
    startup: Duration | None = None
    """The time until the container runs, from when it may start; init containers start one after another."""
    readiness: Annotated[ReadinessRule, BeforeValidator(_readiness)] | None = None
    run: ContainerRun | None = None
    """For ordinary containers and sidecars."""
    init: ContainerRun | None = None
    """For init containers; one without `lasts` never ends."""
    blocked: Annotated[BlockedRule, BeforeValidator(_blocked)] | None = None
    evicted: EvictionRule | None = None
    termination: Termination | None = None
    """The time from SIGTERM to the end; `ignored`: it is killed at the end of the grace period."""
    usage: UsageRule | None = None


class NodeMatch(BehaviourModel):
    name: Pattern = "*"
    labels: Mapping[str, Pattern] = {}


class NodeOutage(BehaviourModel):
    """No heartbeats and no kubelet between two times, counted from the start of the scenario."""

    after: Duration = NOTHING
    until: Duration | None = None
    """None: it never comes back."""

    @model_validator(mode="after")
    def _ends_after_it_began(self) -> "NodeOutage":
        if self.until is not None and self.until <= self.after:
            raise ValueError("`until` must be later than `after`")
        return self


class NodeRule(BehaviourModel):
    match: NodeMatch = NodeMatch()
    dead: Annotated[tuple[NodeOutage, ...], BeforeValidator(_outages)] | None = None
    slow: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Start-up, readiness and termination take this many times as long."""
    usage: UsageRule | None = None
    """Usage of the system, beside the pods; shares are of what is allocatable."""


class Behaviour(BehaviourModel):
    pods: tuple[PodRule, ...] = ()
    nodes: tuple[NodeRule, ...] = ()
    seed: int = 0
    """Seed of all noise: the same seed gives the same usage."""


ORDINARY = PodRule(
    startup=timedelta(seconds=1),
    readiness=ReadinessRule(),
    run=ContainerRun(),
    init=ContainerRun(lasts=timedelta(seconds=1)),
    termination=timedelta(seconds=1),
)
"""How a container behaves where no rule applies; default usage is in `usage_patterns`."""
