"""The components of every simulated cluster: kubelets, their usage meter and the controllers.

They start in a fixed order: the same objects and the same seed give the same history.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from kubesim.apiserver.api_server import ApiServer
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.metrics_server import UsageStore
from kubesim.apiserver.object_store import StoreChange
from kubesim.apiserver.simulated_cluster import SimulatedCluster
from kubesim.behaviour import Behaviour
from kubesim.controllers.autoscaler_controller import AutoscalerController
from kubesim.controllers.controller_base import ChangeHandler, ControllerBase, ControllerContext
from kubesim.controllers.cron_job_controller import CronJobController
from kubesim.controllers.daemon_set_controller import DaemonSetController
from kubesim.controllers.deployment_controller import DeploymentController
from kubesim.controllers.disruption_controller import DisruptionController
from kubesim.controllers.endpoint_slice_controller import EndpointSliceController
from kubesim.controllers.job_controller import JobController
from kubesim.controllers.node_lifecycle_controller import NodeLifecycleController, TaintEvictionController
from kubesim.controllers.quota_controller import QuotaController
from kubesim.controllers.replica_set_controller import ReplicaSetController
from kubesim.controllers.stateful_set_controller import StatefulSetController
from kubesim.controllers.volume_controller import VolumeController
from kubesim.kubelets import KubeletMeter, Kubelets

__all__ = ["ALL_CONTROLLERS", "ClusterComponents", "ControllerManager", "attach_components"]

ALL_CONTROLLERS: tuple[type[ControllerBase], ...] = (
    ReplicaSetController,
    DeploymentController,
    StatefulSetController,
    DaemonSetController,
    JobController,
    CronJobController,
    DisruptionController,
    EndpointSliceController,
    NodeLifecycleController,
    TaintEvictionController,
    QuotaController,
    VolumeController,
    AutoscalerController,
)


class ControllerManager:
    def __init__(
        self,
        cluster: SimulatedCluster,
        *,
        react_s: float = 0.002,
        write_s: float = 0.002,
        usage: UsageStore | None = None,
        only: Iterable[type[ControllerBase]] = ALL_CONTROLLERS,
    ) -> None:
        """Start the controllers.

        A controller reacts `react_s` after a change, and a write takes `write_s`. The autoscaler reads
        `usage` (an `ApiServer` has it); without it, nothing is scaled.
        """
        self._context = ControllerContext(cluster, react_s=react_s, write_s=write_s, usage=usage)
        self._controllers = [make(self._context) for make in only]
        self._handlers: dict[tuple[str, str], list[ChangeHandler]] = {}
        for controller in self._controllers:
            for kind, handler in controller.watches().items():
                self._handlers.setdefault(kind.stored_as, []).append(handler)
        cluster.store.observers.append(self._changed)
        self.resync()

    def stop(self) -> None:
        """Stop all controllers until `start`, as when their process ends."""
        for controller in self._controllers:
            controller.queue.stop()

    def start(self) -> None:
        for controller in self._controllers:
            controller.queue.start()
        self.resync()

    def resync(self) -> None:
        for controller in self._controllers:
            for kind, handler in controller.watches().items():
                for record in self._context.store.collection(kind).ordered():
                    handler(StoreChange(record.version, None, record))

    def _changed(self, kind: ResourceKind, change: StoreChange) -> None:
        if kind.stored_as == ("", "pods"):
            before, after = self._context.pods.update(change)
            for controller in self._controllers:
                controller.pod_changed(before, after)
        for handler in self._handlers.get(kind.stored_as, ()):
            handler(change)


class ClusterComponents(NamedTuple):
    kubelets: Kubelets
    controllers: ControllerManager


def attach_components(server: ApiServer, behaviour: Behaviour, *, began: datetime) -> ClusterComponents:
    """Start everything but the scheduler and the heartbeats; without these, the status of a node counts."""
    kubelets = Kubelets(server.cluster, behaviour, began=began)
    server.usage.meter = KubeletMeter(server.cluster, kubelets)
    return ClusterComponents(kubelets, ControllerManager(server.cluster, usage=server.usage))
