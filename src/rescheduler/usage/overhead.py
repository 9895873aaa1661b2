"""What a node uses beside its pods: its kubelet, its runtime, its system.

A node's own reading can't be its load. It is smoothed, so for minutes after a pod has left it still has
the pod in it, and more pods would be sent away than need be. What counts instead is the sum over the pods
that are there now, each smoothed by itself, and this rest, which stays when pods come and go.
"""

from collections.abc import Mapping
from dataclasses import replace

from rescheduler.usage.readings import Readings, Used

__all__ = ["beside_pods"]


def beside_pods(readings: Readings, node_of: Mapping[str, str]) -> Readings:
    """The same readings, with each node's rest in place of the node's whole.

    `node_of` has the node of every pod that runs. A node with a pod that was not measured tells nothing
    about its rest, and is left out.
    """
    if not readings.nodes:
        return readings
    cpu_millis = dict.fromkeys(readings.nodes, 0)
    memory_bytes = dict.fromkeys(readings.nodes, 0)
    unclear = set()
    for key, node in node_of.items():
        if node not in cpu_millis:
            continue
        used = readings.pods.get(key)
        if used is None:
            unclear.add(node)
        else:
            cpu_millis[node] += used.cpu_millis
            memory_bytes[node] += used.memory_bytes
    rest = {
        # Pods and nodes are not measured in the same instant: the difference may come out below zero.
        name: Used(
            max(0, whole.cpu_millis - cpu_millis[name]),
            max(0, whole.memory_bytes - memory_bytes[name]),
            whole.at_s,
        )
        for name, whole in readings.nodes.items()
        if name not in unclear
    }
    return replace(readings, nodes=rest)
