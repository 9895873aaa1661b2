"""Who works in a cluster whatever its scenario: kubelets, what they measure, and controllers.

Their order is part of the history: same objects, same seed, same history.
"""

from datetime import datetime
from typing import NamedTuple

from rescheduler.simulator.behaviour import Behaviour
from rescheduler.simulator.controllers import Controllers
from rescheduler.simulator.kubelets import Kubelets
from rescheduler.simulator.meter import KubeletMeter
from rescheduler.simulator.server import ApiServer

__all__ = ["Actors", "attach_actors"]


class Actors(NamedTuple):
    kubelets: Kubelets
    controllers: Controllers


def attach_actors(server: ApiServer, behaviour: Behaviour, *, began: datetime) -> Actors:
    """All but the scheduler, and without heartbeats: nodes are believed what their statuses say."""
    kubelets = Kubelets(server.cluster, behaviour, began=began)
    server.usage.meter = KubeletMeter(server.cluster, kubelets)
    return Actors(kubelets, Controllers(server.cluster, usage=server.usage))
