"""The events of a scenario: what an operator or a failure does to the cluster, and when."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from kubesim.behaviour import Behaviour
from kubesim.behaviour.usage_patterns import NOTHING, Duration, LongerThanNothing
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
    """Some objects: `Pod/shop/web-*`, or with how many of them."""

    what: ReferenceText
    count: int | None = Field(default=None, ge=1)
    """So many of those that match, chosen by the scenario's seed; not given: all."""


class MetadataChange(ScenarioModel):
    what: ReferenceText
    set: Mapping[str, Text | None]
    """null takes one away."""


class Scaling(ScenarioModel):
    what: ReferenceText
    replicas: int = Field(ge=0, le=100_000)


class RollOut(ScenarioModel):
    """Another image for a workload's pods."""

    what: ReferenceText
    image: str = Field(min_length=1)
    container: str | None = None
    """Not given: the first one."""


class ObjectChange(ScenarioModel):
    what: ReferenceText
    patch: Mapping[str, Any]
    """Merged into the object (a merge patch: null removes, lists are replaced)."""


_Chosen = Annotated[
    ObjectChoice, BeforeValidator(lambda value: {"what": value} if isinstance(value, str) else value)
]


class ScenarioEvent(ScenarioModel):
    """One action, at one time or again and again. All but `kill`, `revive`, `fault` and `behaviour` go
    through the API, as an operator's would: they may be refused, and the scenario goes on."""

    at: Duration | None = None
    """So long after time started; not given: after the first `every`, or at once."""
    every: LongerThanNothing | None = None
    """And again after each of these."""
    until: Duration | None = None
    """Not again after this."""

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
    """Pods; budgets may refuse."""
    apply: RawObject | None = None
    """An object that is created, or changed to be like this."""
    kill: Names | None = None
    """Nodes whose kubelets fall silent."""
    revive: Names | None = None
    fault: ScenarioFault | None = None
    behaviour: Behaviour | None = None
    """From now on these rules come before all others: another usage, a crash loop."""

    @property
    def action(self) -> tuple[str, Any]:
        """Its name, and what it is to be done to."""
        return next((name, getattr(self, name)) for name in ACTIONS if getattr(self, name) is not None)

    def times(self) -> Iterator[timedelta]:
        """From the scenario's start; endless for some."""
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
            raise ValueError(f"must do one thing, not {len(given)} ({', '.join(given) or 'none'}): {allowed}")
        if self.until is not None and self.every is None:
            raise ValueError("`until` needs `every`")
        return self


def _shown(name: str) -> str:
    return ScenarioEvent.model_fields[name].alias or name


ACTIONS = tuple(name for name in ScenarioEvent.model_fields if name not in ("at", "every", "until"))
