"""A scenario as a whole."""

from datetime import timedelta

from pydantic import Field

from rescheduler.simulator.behaviour import Behaviour
from rescheduler.simulator.behaviour.values import Duration
from rescheduler.simulator.scenario.events import Event
from rescheduler.simulator.scenario.extenders import ExtenderAt
from rescheduler.simulator.scenario.faults import TroubleAt
from rescheduler.simulator.scenario.machines import Machine, Pool
from rescheduler.simulator.scenario.words import Part, RawObject
from rescheduler.simulator.scenario.workloads import Workload

__all__ = ["Scenario"]


class Scenario(Part):
    """A cluster and what happens to it. Same seed, same history."""

    name: str = ""
    description: str = ""
    seed: int = Field(default=0, ge=0)
    settle: Duration = timedelta(minutes=10)
    """How long the cluster has been running when time starts."""
    nodes: tuple[Machine, ...] = ()
    pools: tuple[Pool, ...] = ()
    workloads: tuple[Workload, ...] = ()
    objects: tuple[RawObject, ...] = ()
    """Any other objects; they are created before the workloads."""
    behaviour: Behaviour = Behaviour()
    """How nodes and pods behave: start-up, failures, usage, outages. Times count from when time starts."""
    extenders: tuple[ExtenderAt, ...] = ()
    """Whom the scheduler asks, over HTTP; only where time is real."""
    faults: tuple[TroubleAt, ...] = ()
    """Bad days of the API server."""
    events: tuple[Event, ...] = ()
    """What happens, and when."""

    def machines(self) -> list[Machine]:
        return [*self.nodes, *(machine for pool in self.pools for machine in pool.machines())]

    def seeded_behaviour(self) -> Behaviour:
        """With the scenario's seed, unless it has one of its own."""
        if "seed" in self.behaviour.model_fields_set:
            return self.behaviour
        return self.behaviour.model_copy(update={"seed": self.seed})
