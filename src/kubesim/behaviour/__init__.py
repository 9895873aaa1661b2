"""How simulated pods and nodes behave: rules, and what follows from them. Pure: the time is an argument.

behaviour = load_behaviour(yaml.safe_load(text))
action, wake_at = advance(pod, behaviour, now)
"""

from kubesim.behaviour.behaviour_loading import BehaviourError, load_behaviour
from kubesim.behaviour.behaviour_rules import Behaviour
from kubesim.behaviour.pod_lifecycle import HostFacts, PodRemoval, PodStep, StatusUpdate, advance
from kubesim.behaviour.rule_matching import NodeBehaviour, of_node
from kubesim.behaviour.simulated_usage import ContainerDraw, SimulatedUsage, node_usage, pod_draws, pod_usage

__all__ = [
    "Behaviour",
    "BehaviourError",
    "ContainerDraw",
    "HostFacts",
    "NodeBehaviour",
    "PodRemoval",
    "PodStep",
    "SimulatedUsage",
    "StatusUpdate",
    "advance",
    "load_behaviour",
    "node_usage",
    "of_node",
    "pod_draws",
    "pod_usage",
]
