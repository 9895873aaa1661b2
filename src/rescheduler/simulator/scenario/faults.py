"""Bad days of the API server, in the words of a scenario's file."""

import math
from datetime import timedelta
from typing import Literal

from pydantic import Field

from rescheduler.simulator.behaviour.values import NOTHING, Duration, LongerThanNothing, Pattern
from rescheduler.simulator.faults import Fault, FaultKind
from rescheduler.simulator.scenario.words import Part

__all__ = ["Trouble", "TroubleAt"]

Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]


class Trouble(Part):
    """Strikes the requests that match all it says; what it leaves out matches everything."""

    kind: FaultKind
    """`drop-watches` and `compact` happen at once, all others wait for requests."""
    verbs: tuple[Verb, ...] = ()
    """Not given: those for which the fault makes sense."""
    resource: Pattern = "*"
    """`pods`, `deployments.apps`, `pods/eviction`."""
    namespace: Pattern = "*"
    name: Pattern = "*"
    times: int | None = Field(default=None, ge=1)
    """How many requests it strikes; not given: all, until it ends."""
    lasts: LongerThanNothing | None = None
    """Ends after so long; not given: never."""
    probability: float = Field(default=1.0, gt=0, le=1)
    retry_after: LongerThanNothing | None = None
    """For `too-many-requests` and `unavailable`: what the client is told; whole seconds."""
    delay: Duration = timedelta(seconds=1)
    """For `slow`."""

    @property
    def fault(self) -> Fault:
        wait = self.retry_after
        return Fault(
            kind=self.kind,
            verbs=self.verbs,
            resource=self.resource,
            namespace=self.namespace,
            name=self.name,
            times=self.times,
            probability=self.probability,
            retry_after_s=None if wait is None else math.ceil(wait.total_seconds()),
            delay_s=self.delay.total_seconds(),
        )


class TroubleAt(Trouble):
    at: Duration = NOTHING
    """Since when."""
