"""How nodes and pods behave: a vocabulary, and what follows from it. Pure: the time is an argument.

behaviour = load_behaviour(yaml.safe_load(text))
action, wake_at = advance(pod, behaviour, now)
"""

from rescheduler.simulator.behaviour.choice import NodeBehaviour, of_node
from rescheduler.simulator.behaviour.life import Delete, Host, Step, Update, advance
from rescheduler.simulator.behaviour.loading import BehaviourError, load_behaviour
from rescheduler.simulator.behaviour.usage import Draw, Used, node_usage, pod_draws, pod_usage
from rescheduler.simulator.behaviour.vocabulary import Behaviour

__all__ = [
    "Behaviour",
    "BehaviourError",
    "Delete",
    "Draw",
    "Host",
    "NodeBehaviour",
    "Step",
    "Update",
    "Used",
    "advance",
    "load_behaviour",
    "node_usage",
    "of_node",
    "pod_draws",
    "pod_usage",
]
