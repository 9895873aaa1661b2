"""The controllers of the simulated cluster, each written against the real one.

`Controllers(cluster)` attaches them all. They work on the cluster's clock, in the running event loop.
"""

from collections.abc import Iterable

from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.controllers.autoscaling import Autoscaling
from rescheduler.simulator.controllers.cron_jobs import CronJobs
from rescheduler.simulator.controllers.daemon_sets import DaemonSets
from rescheduler.simulator.controllers.deployments import Deployments
from rescheduler.simulator.controllers.disruption import Disruption
from rescheduler.simulator.controllers.endpoint_slices import EndpointSlices
from rescheduler.simulator.controllers.frame import Controller, Noticed, World
from rescheduler.simulator.controllers.jobs import Jobs
from rescheduler.simulator.controllers.node_lifecycle import NodeLifecycle
from rescheduler.simulator.controllers.quotas import Quotas
from rescheduler.simulator.controllers.replica_sets import ReplicaSets
from rescheduler.simulator.controllers.stateful_sets import StatefulSets
from rescheduler.simulator.controllers.taint_eviction import TaintEviction
from rescheduler.simulator.controllers.volume_binding import VolumeBinding
from rescheduler.simulator.kinds import Kind
from rescheduler.simulator.metrics import UsageBook
from rescheduler.simulator.store import Change

__all__ = ["ALL", "Controllers"]

ALL: tuple[type[Controller], ...] = (
    ReplicaSets,
    Deployments,
    StatefulSets,
    DaemonSets,
    Jobs,
    CronJobs,
    Disruption,
    EndpointSlices,
    NodeLifecycle,
    TaintEviction,
    Quotas,
    VolumeBinding,
    Autoscaling,
)


class Controllers:
    def __init__(
        self,
        cluster: Cluster,
        *,
        react_s: float = 0.002,
        write_s: float = 0.002,
        usage: UsageBook | None = None,
        only: Iterable[type[Controller]] = ALL,
    ) -> None:
        """`react_s` is how long after a change a controller looks at it, `write_s` how long a write takes.

        The autoscaler reads `usage` (an `ApiServer` has it); without it, nothing is scaled.
        """
        self._world = World(cluster, react_s=react_s, write_s=write_s, usage=usage)
        self._controllers = [make(self._world) for make in only]
        self._noticed: dict[tuple[str, str], list[Noticed]] = {}
        for controller in self._controllers:
            for kind, notice in controller.watches().items():
                self._noticed.setdefault(kind.stored_as, []).append(notice)
        cluster.store.observers.append(self._changed)
        self.look_at_everything()

    def stop(self) -> None:
        """As when their process ends: nobody does anything, until `start`."""
        for controller in self._controllers:
            controller.queue.stop()

    def start(self) -> None:
        for controller in self._controllers:
            controller.queue.start()
        self.look_at_everything()

    def look_at_everything(self) -> None:
        for controller in self._controllers:
            for kind, notice in controller.watches().items():
                for record in self._world.store.collection(kind).ordered():
                    notice(Change(record.version, None, record))

    def _changed(self, kind: Kind, change: Change) -> None:
        if kind.stored_as == ("", "pods"):
            before, after = self._world.pods.update(change)
            for controller in self._controllers:
                controller.pod_changed(before, after)
        for notice in self._noticed.get(kind.stored_as, ()):
            notice(change)
