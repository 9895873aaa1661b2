"""A small kube-scheduler: filters, scores, nominated nodes, gates, preemption, extenders.

`Scheduler(cluster)` attaches one to a cluster; several with different names can live side by side.
"""

from kubesim.scheduler.pod_scheduler import DEFAULT_NAME, Scheduler
from kubesim.scheduler.scheduler_extenders import Extender, ExtenderTransport

__all__ = ["DEFAULT_NAME", "Extender", "ExtenderTransport", "Scheduler"]
