"""Why a pod can't be put on a node, in the real scheduler's own words.

A filter is asked in two steps, as the real one is: `prepare` looks at the pod and the whole cluster
once, and what comes back looks at single nodes. A filter that has nothing to say about a pod returns
None; one that refuses the pod wherever it might go returns the refusal at once.
"""

from collections.abc import Callable
from typing import NamedTuple

from rescheduler.simulator.scheduler.nodes import NodeView
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.view import ClusterView

__all__ = ["Check", "Filter", "Refusal"]


class Refusal(NamedTuple):
    filter: str
    """The plugin's name, as Kubernetes has it."""
    reasons: tuple[str, ...]
    final: bool = True
    """True if nothing changes by taking other pods away: preemption need not be tried."""


Check = Callable[[NodeView], Refusal | None]
Filter = Callable[[PodView, ClusterView], Check | Refusal | None]
