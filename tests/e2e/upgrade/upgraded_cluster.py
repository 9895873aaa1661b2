"""A cluster in which version 0.1 is installed and empties a node, until it is upgraded."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from kubesim.behaviour import load_behaviour
from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.api_resources import DEPLOYMENTS, NAMESPACES, STATEFUL_SETS, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from tests.e2e.chaos.api_observer import ApiObserver
from tests.e2e.chaos.audit_trail import audited_requests
from tests.e2e.chaos.chaos_programs import Program
from tests.e2e.chaos.leftover_verdicts import leftovers, unrecovered
from tests.e2e.chaos.object_versions import MAINTENANCE, MigrationState
from tests.e2e.chaos.round_summary import summarize
from tests.e2e.daemon.processes import write_config
from tests.e2e.installed.commands import apply_manifests
from tests.e2e.permissions import DAEMON, kubeconfig_as
from tests.e2e.upgrade.previous_version import PreviousVersion
from tests.stories import objects
from tests.stories.sandbox import until_usable
from tests.testbed import ControlPlane, Part
from tests.testbed.fake_kubelet import FakeKubelet, node_shapes

__all__ = ["HANDOVERS", "HOME", "UpgradedCluster", "upgraded_cluster"]

HOME = "rescheduler"
HANDOVERS = ("adopt", "copy", "evict")
NODES_COUNT = 4
_ARGS = {
    "enabledStrategies": ["NodeMaintenance"],
    "maxReschedulePods": 1000,
    "maxConcurrentMigrations": 1000,
    "maxConcurrentPerNode": 1000,
}
_RUN = ("run", "--namespace", HOME, "--log-level", "debug", "--log-format", "json")
_PATIENCE_S = 240.0


@dataclass
class UpgradedCluster:
    plane: ControlPlane
    client: Client
    kubelet: FakeKubelet
    observer: ApiObserver
    previous: PreviousVersion
    folder: Path
    nodes: list[str] = field(default_factory=list)

    @property
    def source(self) -> str:
        """The node that is emptied."""
        return self.nodes[0]

    # -- what is in it

    async def install_previous(self) -> None:
        manifests = self.previous.run("manifests", "--image", "registry.example/rescheduler:0.1")
        self.plane.kubectl("apply", "-f", "-", stdin=manifests)
        self.plane.wait_until_served(PODMIGRATION_CRD_NAME)
        # It asks which kinds there are only every half a minute, or when it starts.
        await asyncio.to_thread(self.plane.restart, Part.CONTROLLER_MANAGER)
        self.nodes = await until_usable(self.client, self.kubelet, NODES_COUNT)

    async def create_workloads(self, namespaces: list[str]) -> None:
        """One workload in each namespace, with a pod on the first node; the name says by which handover it
        moves."""
        await self._cordon(*self.nodes[1:])
        spec = objects.pod_spec(self.kubelet.name, cpu="50m")
        for namespace in namespaces:
            await self.client.create(NAMESPACES, {"metadata": {"name": namespace}})
            match namespace.partition("-")[0]:
                case "adopt":
                    await self.client.create(DEPLOYMENTS, objects.deployment(namespace, "web", 1, spec))
                case "copy":
                    await self.client.create(PODS.as_json, objects.pod(namespace, "web", spec))
                case "evict":
                    made = objects.deployment(namespace, "web", 1, spec, serviceName="web")
                    await self.client.create(STATEFUL_SETS, {**made, "kind": "StatefulSet"})
        await self.until(lambda: self._ready_pods(namespaces) == len(namespaces))
        await self._cordon(*self.nodes[1:], on=False)
        # The second replica is elsewhere: a StatefulSet of two gets a temporary budget.
        await self._cordon(self.source)
        evicted = [each for each in namespaces if each.startswith("evict")]
        for namespace in evicted:
            change = merge_patch({"spec": {"replicas": 2}})
            await self.client.patch(STATEFUL_SETS, f"{namespace}/web", change)
        await self.until(lambda: self._ready_pods(namespaces) == len(namespaces) + len(evicted))
        await self._cordon(self.source, on=False)

    async def begin_maintenance(self, *, on: bool = True) -> None:
        change = {"metadata": {"labels": {MAINTENANCE: "true" if on else None}}}
        await self.client.patch(NODES, self.source, merge_patch(change))
        await self.until(lambda: on is any(node.in_maintenance for node in self.observer.nodes.last()))

    async def _cordon(self, *nodes: str, on: bool = True) -> None:
        for node in nodes:
            await self.client.patch(NODES, node, merge_patch({"spec": {"unschedulable": on or None}}))

    # -- the programs

    def previous_daemon(self, url: str = "") -> Program:
        """The daemon of version 0.1; `url` is where it finds the API server."""
        account = kubeconfig_as(self.plane, DAEMON, HOME, self.folder, installed=True)
        if url:
            content = yaml.safe_load(account.read_text())
            for cluster in content["clusters"]:
                cluster["cluster"] = {"server": url}
            account = self.folder / "proxied.kubeconfig"
            account.write_text(json.dumps(content))
        config = write_config(self.folder / "previous.json", **_ARGS)
        return Program(
            "previous",
            (*_RUN, "--config", str(config), "--host", "127.0.0.1", "--port", "0"),
            account,
            self.folder / "previous.log",
            self.previous.command,
            self.previous.environment,
        )

    def daemon(self) -> Program:
        account = kubeconfig_as(self.plane, DAEMON, HOME, self.folder, installed=True)
        config = write_config(self.folder / "current.json", **_ARGS)
        options = ("--config", str(config), "--host", "127.0.0.1", "--port", "0")
        return Program("current", (*_RUN, *options), account, self.folder / "current.log")

    def upgrade(self, *options: str) -> None:
        """Do what docs/upgrading.md says."""
        apply_manifests(self.plane, "--image", "registry.example/rescheduler:0.2", *options)
        for kind in ("clusterrolebinding", "clusterrole"):
            self.plane.kubectl("delete", kind, "rescheduler", "rescheduler-webhook")
        self.plane.kubectl("delete", "mutatingwebhookconfiguration", "rescheduler", "--ignore-not-found")

    # -- what is seen

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(_PATIENCE_S):
            while not holds():  # noqa: ASYNC110 - the observer only notes
                await asyncio.sleep(0.1)

    async def until_clean(self) -> None:
        """Wait until nothing is left of any migration, and every workload has the pods that it requests."""
        try:
            await self.until(lambda: not self._faults())
        except TimeoutError:
            pytest.fail("\n".join(self._faults()))

    def _ready_pods(self, namespaces: list[str]) -> int:
        return sum(pod.serves and pod.namespace in namespaces for pod in self.observer.pods.last())

    def migrations(self) -> list[MigrationState]:
        """The last states of those that there are, of workloads."""
        return [each for each in self.observer.migrations.last() if each.namespace != HOME]

    def pods_left(self) -> list[str]:
        """Pods of workloads on the node that is emptied."""
        return [
            pod.key
            for pod in self.observer.pods.last()
            if pod.node == self.source and pod.namespace != HOME and pod.app == "web"
        ]

    def _faults(self) -> list[str]:
        return _of_workloads([*leftovers(self.observer), *unrecovered(self.observer)])

    def verdict(self) -> list[str]:
        """Return every fault of both versions, from the first move on."""
        requests = list(audited_requests(self.plane.audited()))
        return _of_workloads(summarize(0, self.observer, requests, Counter()).faults)


def _of_workloads(faults: list[str]) -> list[str]:
    # The installed programs have no image that a fake kubelet could run.
    return [each for each in faults if f" {HOME}/" not in each]


@contextlib.asynccontextmanager
async def upgraded_cluster(
    plane: ControlPlane, previous: PreviousVersion, folder: Path
) -> AsyncIterator[UpgradedCluster]:
    async with (
        HttpTransport(load_cluster_access(plane.kubeconfig)) as playing,
        HttpTransport(load_cluster_access(plane.kubeconfig)) as reading,
    ):
        client, observer = Client(playing, field_manager="test"), ApiObserver(Client(reading))
        behaviour = load_behaviour({"pods": [{"startup": "300ms", "termination": "300ms"}]})
        kubelet = FakeKubelet(client, behaviour, name="upgrade", beat_every_s=3.0)
        cluster = UpgradedCluster(plane, client, kubelet, observer, previous, folder)
        async with kubelet.running():
            await kubelet.register(node_shapes(NODES_COUNT, "node"))
            await cluster.install_previous()
            async with observer.running():
                yield cluster
