"""Scenarios: a cluster and the events that happen to it, from a file (see docs/scenarios.md).

scenario = read_scenario(Path("scenarios/hot-spot.yaml"))
server.load(initial_objects(scenario, now))
start_cluster(server, scenario)
"""

from kubesim.scenario.initial_cluster import ScenarioNotSettled, initial_objects
from kubesim.scenario.scenario_file import (
    Scenario,
    ScenarioError,
    load_scenario,
    parse_scenario,
    read_scenario,
)
from kubesim.scenario.scenario_timeline import TimelineEntry

__all__ = [
    "Scenario",
    "ScenarioError",
    "ScenarioNotSettled",
    "TimelineEntry",
    "initial_objects",
    "load_scenario",
    "parse_scenario",
    "read_scenario",
]
