"""A simulated Kubernetes cluster: API server, controllers, scheduler and kubelets, in real or virtual time.

`README.md` says what it is for, what it can't do, and where everything is. `python -m kubesim` runs a cluster
as a process of its own. `kubesim.sockets` has what needs real connections and is not imported here.
"""

from kubesim.apiserver.api_server import ApiServer
from kubesim.apiserver.fault_injection import InjectedFault
from kubesim.apiserver.metrics_server import MeasuredUsage
from kubesim.behaviour import load_behaviour
from kubesim.running_cluster import EPOCH, RunningCluster, simulated_server, start_cluster
from kubesim.scenario import (
    Scenario,
    ScenarioError,
    TimelineEntry,
    initial_objects,
    parse_scenario,
    read_scenario,
)
from kubesim.virtual_time import LoopClock, ManualClock, VirtualLoop, run_virtual

__all__ = [
    "EPOCH",
    "ApiServer",
    "InjectedFault",
    "LoopClock",
    "ManualClock",
    "MeasuredUsage",
    "RunningCluster",
    "Scenario",
    "ScenarioError",
    "TimelineEntry",
    "VirtualLoop",
    "initial_objects",
    "load_behaviour",
    "parse_scenario",
    "read_scenario",
    "run_virtual",
    "simulated_server",
    "start_cluster",
]
