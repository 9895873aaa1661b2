"""Scenarios: a cluster and what happens to it, from a file (see docs/scenarios.md).

scenario = read_scenario(Path("scenarios/hot-spot.yaml"))     file → scenario, or all that is wrong
objects = settled(scenario, now)                              scenario → the cluster when time starts
server.load(objects); bring_to_life(server, scenario)         (simulator.life) → time starts
"""

from rescheduler.simulator.scenario.loading import (
    ScenarioError,
    load_scenario,
    parse_scenario,
    read_scenario,
)
from rescheduler.simulator.scenario.settling import CannotSettle, settled
from rescheduler.simulator.scenario.shape import Scenario
from rescheduler.simulator.scenario.timeline import Happening

__all__ = [
    "CannotSettle",
    "Happening",
    "Scenario",
    "ScenarioError",
    "load_scenario",
    "parse_scenario",
    "read_scenario",
    "settled",
]
