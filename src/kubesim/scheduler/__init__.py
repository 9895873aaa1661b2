"""A small kube-scheduler: filters, scores, nominated nodes, scheduling gates, preemption and extenders.

`Scheduler(cluster)` attaches one to a cluster; several schedulers with different names can run together.
"""

from kubesim.scheduler.pod_scheduler import DEFAULT_NAME, Scheduler
from kubesim.scheduler.scheduler_extenders import Extender, ExtenderTransport

__all__ = ["DEFAULT_NAME", "Extender", "ExtenderTransport", "Scheduler"]
