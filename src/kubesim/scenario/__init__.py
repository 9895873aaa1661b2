"""Scenarios: a cluster and what happens to it, from a file (see docs/scenarios.md).

scenario = read_scenario(Path("scenarios/hot-spot.yaml"))     file → scenario, or all that is wrong
objects = settled(scenario, now)                              scenario → the cluster when time starts
server.load(objects); start_cluster(server, scenario)         (kubesim.running_cluster) → time starts
"""

from kubesim.scenario.initial_cluster import CannotSettle, initial_objects
from kubesim.scenario.scenario_file import (
    Scenario,
    ScenarioError,
    load_scenario,
    parse_scenario,
    read_scenario,
)
from kubesim.scenario.scenario_timeline import TimelineEntry

__all__ = [
    "CannotSettle",
    "Scenario",
    "ScenarioError",
    "TimelineEntry",
    "initial_objects",
    "load_scenario",
    "parse_scenario",
    "read_scenario",
]
