"""The events of a scenario: what an operator or a failure does to the cluster, and when."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from kubesim.behaviour import Behaviour
from kubesim.behaviour.usage_patterns import NOTHING, Duration, PositiveDuration
from kubesim.scenario.scenario_values import (
    Names,
    RawObject,
    ReferenceText,
    ScenarioFault,
    ScenarioModel,
    Text,
)

__all__ = ["ACTIONS", "MetadataChange", "ObjectChange", "ObjectChoice", "RollOut", "Scaling", "ScenarioEvent"]


class ObjectChoice(ScenarioModel):
    """Objects, such as `Pod/shop/web-*`; with `count`, only so many of them."""

    what: ReferenceText
    count: int | None = Field(default=None, ge=1)
    """This many of the matching objects, chosen by the scenario's seed; not given: all."""


class MetadataChange(ScenarioModel):
    what: ReferenceText
    set: Mapping[str, Text | None]
    """null removes it."""


class Scaling(ScenarioModel):
    what: ReferenceText
    replicas: int = Field(ge=0, le=100_000)


class RollOut(ScenarioModel):
    """A new image for a workload's pods."""

    what: ReferenceText
    image: str = Field(min_length=1)
    container: str | None = None
    """Not given: the first container."""


class ObjectChange(ScenarioModel):
    what: ReferenceText
    patch: Mapping[str, Any]
    """Merged into the object (a merge patch: null removes, lists are replaced)."""


_Chosen = Annotated[
    ObjectChoice, BeforeValidator(lambda value: {"what": value} if isinstance(value, str) else value)
]


class ScenarioEvent(ScenarioModel):
    """One action, once or repeatedly. All but `kill`, `revive`, `fault` and `behaviour` go through the API,
    as an operator's would: they may be rejected, and the scenario continues.
    """

    at: Duration | None = None
    """This long after the start; not given: after the first `every`, or immediately."""
    every: PositiveDuration | None = None
    """Repeated at this interval."""
    until: Duration | None = None
    """Not repeated after this time."""

    cordon: Names | None = None
    """Nodes, by name."""
    uncordon: Names | None = None
    label: MetadataChange | None = None
    annotate: MetadataChange | None = None
    patch: ObjectChange | None = None
    scale: Scaling | None = None
    roll_out: RollOut | None = None
    delete: _Chosen | None = None
    evict: _Chosen | None = None
    """Pods; disruption budgets may reject it."""
    apply: RawObject | None = None
    """An object to create or update."""
    kill: Names | None = None
    """Nodes whose kubelets stop."""
    revive: Names | None = None
    fault: ScenarioFault | None = None
    behaviour: Behaviour | None = None
    """Rules that take precedence over all others from now on: another usage, a crash loop."""

    @property
    def action(self) -> tuple[str, Any]:
        """Return the name of the action and its value."""
        return next((name, getattr(self, name)) for name in ACTIONS if getattr(self, name) is not None)

    def times(self) -> Iterator[timedelta]:
        """Yield the times from the start of the scenario; without end for some."""
        moment = self.at if self.at is not None else self.every or NOTHING
        yield moment
        while self.every is not None:
            moment += self.every
            if self.until is not None and moment > self.until:
                return
            yield moment

    @model_validator(mode="after")
    def _does_one_thing(self) -> "ScenarioEvent":
        given = [_shown(name) for name in ACTIONS if getattr(self, name) is not None]
        if len(given) != 1:
            allowed = ", ".join(map(_shown, ACTIONS))
            raise ValueError(
                f"must have one action, not {len(given)} ({', '.join(given) or 'none'}): {allowed}"
            )
        if self.until is not None and self.every is None:
            raise ValueError("`until` needs `every`")
        return self


def _shown(name: str) -> str:
    return ScenarioEvent.model_fields[name].alias or name


ACTIONS = tuple(name for name in ScenarioEvent.model_fields if name not in ("at", "every", "until"))
