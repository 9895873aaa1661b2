"""A small kube-scheduler: filters, scores, nominated nodes, gates, preemption, extenders.

`Scheduler(cluster)` attaches one to a cluster; several with different names can live side by side.
"""

from rescheduler.simulator.scheduler.extenders import Carrier, Extender
from rescheduler.simulator.scheduler.scheduler import DEFAULT_NAME, Scheduler

__all__ = ["DEFAULT_NAME", "Carrier", "Extender", "Scheduler"]
