"""The scenario that comes with the program; more are in the project's folder `scenarios`."""

from importlib.resources import files

from rescheduler.simulator.scenario.loading import parse_scenario
from rescheduler.simulator.scenario.shape import Scenario

__all__ = ["lopsided_shop"]


def lopsided_shop() -> Scenario:
    """Six nodes, two of them hot and one idle, with the workloads a shop would run."""
    name = "lopsided-shop.yaml"
    return parse_scenario(files(__package__).joinpath(name).read_bytes(), source=name)
