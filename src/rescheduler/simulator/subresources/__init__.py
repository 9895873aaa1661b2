"""What hangs below an object and has verbs of its own.

`status` is not here: it is the object itself, seen through a filter, and `verbs` knows it.
"""

from collections.abc import Awaitable, Callable

from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.exchange import Answer, Question
from rescheduler.simulator.routing import Route
from rescheduler.simulator.subresources import binding, containers, eviction, finalize, log, scale

__all__ = ["HANDLERS", "Handler"]

Handler = Callable[[Cluster, Question, Route], Awaitable[Answer]]

HANDLERS: dict[tuple[str, str], Handler] = {
    ("POST", "binding"): binding.bind,
    ("POST", "eviction"): eviction.evict,
    ("PUT", "finalize"): finalize.finalize,
    ("GET", "log"): log.read,
    ("GET", "scale"): scale.get,
    ("PUT", "scale"): scale.replace,
    ("PATCH", "scale"): scale.patch,
    ("GET", "ephemeralcontainers"): containers.get,
    ("PUT", "ephemeralcontainers"): containers.replace_ephemeral,
    ("PATCH", "ephemeralcontainers"): containers.patch_ephemeral,
    ("GET", "resize"): containers.get,
    ("PUT", "resize"): containers.replace_resources,
    ("PATCH", "resize"): containers.patch_resources,
}
