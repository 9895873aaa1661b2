"""A Kubernetes API server of our own: a core without sockets, and shells around it."""

from rescheduler.simulator.server import ApiServer

__all__ = ["ApiServer"]
