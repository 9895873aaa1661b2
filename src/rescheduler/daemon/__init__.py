"""The one place that wires things together: what the commands that move pods run on, and the daemon.

rescheduler   everything that a process has which moves pods
running       `rescheduler run`: ordered start, leading or standing by, ordered stop
rounds        the checks of whoever leads, and what becomes of their plans
watchman      what brings the program to a halt
keeping       what the leader writes down for `rescheduler status`
"""

from rescheduler.daemon.rescheduler import Rescheduler
from rescheduler.daemon.whereabouts import lease_key, own_namespace, who_we_are

__all__ = ["Rescheduler", "lease_key", "own_namespace", "who_we_are"]
