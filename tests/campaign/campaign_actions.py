"""What happens to the cluster and to the programs: faults, and other clients at the worst moment.

Actions of other clients on pods and workloads are those of the chaos rounds on a real control plane. Each
action has its own random numbers, so that it does the same when others are left out.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kubesim import ApiServer
from kubesim.apiserver.fault_injection import FaultKind, InjectedFault
from kubesim.behaviour import load_behaviour
from kubesim.running_cluster import EPOCH, RunningCluster
from kubesim.scenario.scenario_objects import node_object
from rescheduler.api.daemon_status import Pause
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.daemon.own_objects import write_pause
from rescheduler.kube import errors
from rescheduler.kube.api_resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    STATEFUL_SETS,
    Object,
    merge_patch,
)
from rescheduler.kube.client import Client
from tests.campaign.campaign_cluster import NAMESPACES, OPTED_OUT, CampaignCluster
from tests.campaign.campaign_programs import DaemonProcess, WebhookProcess
from tests.campaign.invariants import elapsed
from tests.campaign.unreliable_connection import ApiServerOutage, UnreliableConnection
from tests.e2e.chaos.chaos_actions import ChaosActions
from tests.e2e.chaos.chaos_workloads import HOME
from tests.e2e.chaos.object_versions import MAINTENANCE

__all__ = ["CampaignActions", "Stage"]

TAINT = {"key": "example.com/special", "value": "yes", "effect": "NoSchedule"}
EVICT_AGAIN_S = 5.0
"""As `kubectl drain` does after 429."""


@dataclass
class Stage:
    """The running cluster, and what can be done to it."""

    cluster: CampaignCluster
    server: ApiServer
    running: RunningCluster
    client: Client
    """That of other clients; its requests meet the faults of the API server, too."""
    daemons: list[DaemonProcess]
    webhook: WebhookProcess | None
    outage: ApiServerOutage
    connect: Callable[[str, str], UnreliableConnection]
    """connect(user, name): another connection."""
    history: list[str] = field(default_factory=list)

    def now(self) -> datetime:
        return self.server.clock.now()

    @property
    def connections(self) -> list[UnreliableConnection]:
        programs = [*self.daemons, *([self.webhook] if self.webhook else [])]
        return [each.connection for each in programs if each.connection is not None]


class CampaignActions(ChaosActions):
    def __init__(self, stage: Stage, rng: random.Random) -> None:
        nodes: dict[str, Any] = dict.fromkeys(stage.cluster.nodes)
        super().__init__(rng, None, stage.client, None, nodes, stage.daemons, stage.webhook)  # type: ignore[arg-type]
        self.stage = stage

    def note(self, text: str) -> None:
        self.stage.history.append(f"{elapsed(self.stage.now(), EPOCH)} {text}")

    async def _wait(self, shortest_s: float, longest_s: float) -> None:
        await asyncio.sleep(self.rng.uniform(shortest_s, longest_s))

    # -- faults of the API server

    async def conflicts(self) -> None:
        await self._burst("conflict", times=self.rng.randint(1, 6))

    async def too_many_requests(self) -> None:
        await self._burst("too-many-requests", retry_after_s=self.rng.choice((None, 1, 5)))

    async def internal_errors(self) -> None:
        await self._burst("internal-error")

    async def unavailable(self) -> None:
        await self._burst("unavailable")

    async def slow_answers(self) -> None:
        await self._burst("slow", delay_s=self.rng.choice((0.5, 3.0, 20.0)))

    async def lost_answers(self) -> None:
        await self._burst("lose-response", times=self.rng.randint(1, 4))

    async def _burst(self, kind: FaultKind, **more: Any) -> None:
        more = {"times": None, "probability": self.rng.choice((0.2, 0.5, 1.0))} | more
        resource = self.rng.choice(("*", "*", "pods", "pods/*", "podmigrations*", "podmigrations*"))
        number = self.stage.server.inject(InjectedFault(kind, resource=resource, **more))["number"]
        self.note(f"{kind} on {resource} begins ({more})")
        await self._wait(2.0, 40.0)
        self.stage.server.faults.remove(int(number))
        self.note(f"{kind} on {resource} ends")

    async def drop_watches(self) -> None:
        self.stage.server.inject(InjectedFault("drop-watches"))
        self.note("all watches dropped")

    async def compaction(self) -> None:
        store = self.stage.server.store
        self.stage.server.inject(InjectedFault("compact", version=max(1, store.version - 50)))
        self.stage.server.inject(InjectedFault("drop-watches"))
        self.note("history compacted, all watches dropped")

    async def kill_the_api_server(self) -> None:
        self.stage.outage.is_down = True
        self.stage.server.inject(InjectedFault("drop-watches"))
        self.note("API server down")
        await self._wait(3.0, 60.0)
        self.stage.outage.is_down = False
        self.note("API server up")

    # -- faults of the network and of clocks

    async def bad_network(self) -> None:
        connection = self._connection()
        connection.network.fault_rate, connection.network.stall = self.rng.choice(((0.1, 0.03), (0.4, 0.1)))
        self.note(f"bad network of {connection.user}")
        await self._wait(10.0, 120.0)
        connection.network.fault_rate = connection.network.stall = 0.0
        self.note(f"network of {connection.user} is fine")

    async def stale_caches(self) -> None:
        connection = self._connection()
        connection.network.lag_s = self.rng.choice((1.0, 5.0, 30.0))
        self.note(f"watches of {connection.user} lag {connection.network.lag_s:g} s")
        await self._wait(10.0, 180.0)
        connection.network.lag_s = 0.0
        self.note(f"watches of {connection.user} are current")

    async def repeated_events(self) -> None:
        connection = self._connection()
        connection.repeat_rate = 0.5
        self.note(f"watch events of {connection.user} come twice")
        await self._wait(10.0, 180.0)
        connection.repeat_rate = 0.0

    async def partition(self) -> None:
        """Another daemon takes over, and this one comes back."""
        connection = self.rng.choice(self.stage.daemons).connection
        assert connection is not None
        connection.is_cut = True
        self.note(f"{connection.user} is cut off")
        await self._wait(5.0, 120.0)
        connection.is_cut = False
        self.note(f"{connection.user} is back")

    async def clock_jump(self) -> None:
        daemon = self.rng.choice(self.stage.daemons)
        daemon.skew = timedelta(seconds=self.rng.choice((-600, -60, -5, 5, 60, 600)))
        self.note(f"clock of {daemon.name} jumps to {daemon.skew.total_seconds():+g} s")

    def _connection(self) -> UnreliableConnection:
        return self.rng.choice(self.stage.connections)

    # -- programs

    async def kill_a_daemon(self) -> None:
        daemon = self.rng.choice(self.stage.daemons)
        await daemon.kill()
        self.note(f"{daemon.name} killed")
        await self._start_again(daemon)

    async def crash_at_a_write(self) -> None:
        """A daemon ends at one of its next writes, done or not."""
        daemon = self.rng.choice(self.stage.daemons)
        connection = daemon.connection
        assert connection is not None
        connection.end_after_it = self.rng.random() < 0.5
        connection.end_at_write = self.rng.randint(0, 8)
        how = "after" if connection.end_after_it else "before"
        self.note(f"{daemon.name} will end {how} its write number {connection.end_at_write + 1}")
        for _ in range(120):
            await asyncio.sleep(1.0)
            if not daemon.runs:
                break
        connection.end_at_write = None
        if not daemon.runs:
            self.note(f"{daemon.name} ended")
            await daemon.kill()
            await self._start_again(daemon)

    async def _start_again(self, daemon: DaemonProcess) -> None:
        await self._wait(0.0, 60.0)
        daemon.start()
        self.note(f"{daemon.name} started")

    async def kill_the_webhook(self) -> None:
        webhook = self._webhook()
        await webhook.kill()
        self.note("webhook killed")
        await self._wait(2.0, 120.0)
        await webhook.start()
        self.note("webhook started")

    async def unreachable_webhook(self) -> None:
        webhook = self._webhook()
        webhook.is_reachable = False
        self.note("webhook unreachable")
        await self._wait(2.0, 120.0)
        webhook.is_reachable = True
        self.note("webhook reachable")

    async def slow_webhook(self) -> None:
        webhook = self._webhook()
        webhook.is_slow = True
        self.note("webhook answers too late")
        await self._wait(2.0, 60.0)
        webhook.is_slow = False
        self.note("webhook answers in time")

    def _webhook(self) -> WebhookProcess:
        if self.stage.webhook is None:
            raise IndexError("no webhook in this cluster")
        return self.stage.webhook

    async def pause_and_resume(self) -> None:
        await write_pause(self.client, HOME, Pause(paused=True, by="operator"))
        self.note("paused")
        await self._wait(10.0, 120.0)
        await self.until_done(lambda: write_pause(self.client, HOME, Pause()))
        self.note("resumed")

    # -- nodes

    async def silence_a_node(self) -> None:
        name = self.rng.choice(self._usable_nodes())
        kubelets = self.stage.running.kubelets
        kubelets.kill(name)
        self.note(f"{name} dies")
        await self._wait(20.0, 600.0)
        kubelets.revive(name)
        self.note(f"{name} returns")

    async def delete_a_node(self) -> None:
        name = self.rng.choice(self._usable_nodes())
        await self.client.delete(NODES, name)
        self.note(f"{name} deleted")
        await self._wait(20.0, 300.0)
        await self.until_done(lambda: self.register(name))
        self.note(f"{name} registered again")

    async def register(self, name: str) -> None:
        """Create the node, unless it is there."""
        machines = self.stage.cluster.scenario.machines()
        number = next(place for place, machine in enumerate(machines, start=1) if machine.name == name)
        node = node_object(machines[number - 1], number, self.stage.now())
        try:
            await self.client.create(NODES.as_json, node)
        except errors.AlreadyExists:
            return

    async def cordon_and_uncordon(self) -> None:
        name = self.rng.choice(self._usable_nodes())
        await self._cordon(name, True)
        await self._wait(10.0, 200.0)
        await self.until_done(lambda: self._cordon(name, None))

    async def _cordon(self, name: str, value: bool | None) -> None:
        await self.client.patch(NODES, name, merge_patch({"spec": {"unschedulable": value}}))
        self.note(f"{name} {'cordoned' if value else 'uncordoned'}")

    async def drain_a_node(self) -> None:
        """As `kubectl drain` does: cordon, evict all pods again and again, and later uncordon."""
        name = self.rng.choice(self._usable_nodes())
        await self._cordon(name, True)
        self.note(f"drain of {name} begins")
        evicting = [self._evict_until_gone(pod) for pod in await self._pods_on(name)]
        await asyncio.gather(*evicting)
        self.note(f"drain of {name} ends")
        await self._wait(0.0, 100.0)
        await self.until_done(lambda: self._cordon(name, None))

    async def _pods_on(self, node: str) -> list[Object]:
        return [
            pod
            for pod in (await self.client.list(PODS.as_json, fields=f"spec.nodeName={node}")).items
            if not any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences", ()))
        ]

    async def _evict_until_gone(self, pod: Object) -> None:
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for _ in range(self.rng.randint(3, 40)):
            try:
                await self.client.evict(key, uid=pod["metadata"]["uid"])
            except (errors.NotFound, errors.Conflict):
                return
            except errors.KubeError:
                await asyncio.sleep(EVICT_AGAIN_S)
            else:
                return

    async def taint_a_node(self) -> None:
        name = self.rng.choice(self._usable_nodes())
        await self.client.patch(NODES, name, merge_patch({"spec": {"taints": [TAINT]}}))
        self.note(f"{name} tainted")
        await self._wait(20.0, 300.0)
        await self.until_done(lambda: self.client.patch(NODES, name, merge_patch({"spec": {"taints": []}})))
        self.note(f"{name} no longer tainted")

    def _usable_nodes(self) -> list[str]:
        is_dead = self.stage.running.kubelets.is_dead
        alive = [name for name in self.stage.cluster.nodes if not is_dead(name)]
        if len(alive) <= len(self.stage.cluster.nodes) - 2:
            raise IndexError("two nodes are away already")
        return alive

    # -- pods and workloads

    async def slow_pods(self) -> None:
        startup = self.rng.choice(("30s", "200s"))
        await self._behave(f"start in {startup}", {"startup": startup, "readiness": "10s"})

    async def failing_pods(self) -> None:
        fails = self.rng.choice(
            (
                {"run": {"lasts": "3s", "exitCode": 1}},
                {"blocked": "ErrImagePull"},
                {"readiness": {"after": "1s", "ready": "25s", "unready": "5s"}},
                {"readiness": "never"},
            )
        )
        await self._behave(f"fail ({', '.join(fails)})", fails)

    async def _behave(self, words: str, rule: dict[str, Any]) -> None:
        app = self.rng.choice(await self._pods())["metadata"]["labels"].get("app", "*")
        match: dict[str, Any] = {"labels": {"app": app}}
        if self.rng.random() < 0.5:
            match["node"] = self.rng.choice(self.stage.cluster.nodes)
        kubelets = self.stage.running.kubelets
        kubelets.add_rules_first(load_behaviour({"pods": [{"match": match, **rule}]}))
        self.note(f"pods of {app} on {match.get('node', 'all nodes')} {words}")
        await self._wait(20.0, 300.0)
        kubelets.behave(self.stage.cluster.scenario.seeded_behaviour())
        self.note("pods behave again")

    async def allow_retries(self) -> None:
        workload = self.rng.choice(await self._deployments())
        change = merge_patch({"metadata": {"annotations": {"scheduling-retries": "3"}}})
        await self.client.patch(DEPLOYMENTS, _key(workload), change)
        self.note(f"{_key(workload)} may be retried")

    async def change_a_budget(self) -> None:
        found = (await self.client.list(POD_DISRUPTION_BUDGETS)).items
        budget = self.rng.choice([each for each in found if not each["metadata"].get("ownerReferences")])
        spec = self.rng.choice(
            ({"maxUnavailable": 1, "minAvailable": None}, {"maxUnavailable": 0, "minAvailable": None},
             {"maxUnavailable": None, "minAvailable": "100%"}, {"maxUnavailable": None, "minAvailable": 1})
        )  # fmt: skip
        if self.rng.random() < 0.2:
            await self.client.delete(POD_DISRUPTION_BUDGETS, _key(budget))
        else:
            await self.client.patch(POD_DISRUPTION_BUDGETS, _key(budget), merge_patch({"spec": spec}))
        self.note(f"budget {_key(budget)} changed")

    async def opt_out_a_pod(self) -> None:
        """The label of a source, most likely, while it moves."""
        pods = await self._pods()
        pod = self.rng.choice([each for each in pods if MAINTENANCE not in each["metadata"]["labels"]])
        await self.client.patch(PODS, _key(pod), merge_patch({"metadata": {"labels": OPTED_OUT}}))
        self.note(f"{_key(pod)} opted out")

    async def scale_a_stateful_set(self) -> None:
        workload = self.rng.choice((await self.client.list(STATEFUL_SETS)).items)
        replicas = min(5, max(0, workload["spec"]["replicas"] + self.rng.choice((-1, 1))))
        await self.client.patch(STATEFUL_SETS, _key(workload), merge_patch({"spec": {"replicas": replicas}}))
        self.note(f"scaled {_key(workload)} to {replicas}")

    async def autoscale(self) -> None:
        """As an autoscaler does under load: many steps up, and later down again."""
        workload = self.rng.choice(await self._deployments())
        initial = workload["spec"]["replicas"]
        for replicas in (initial + 1, initial + 2, initial + 1, initial):
            await self._scale(workload, replicas)
            await self._wait(15.0, 60.0)

    async def restore_replicas(self) -> None:
        """Give workloads the replicas of the beginning."""
        for workload in self.stage.cluster.scenario.workloads:
            if workload.kind not in ("Deployment", "StatefulSet") or workload.namespace not in NAMESPACES:
                continue
            kind = DEPLOYMENTS if workload.kind == "Deployment" else STATEFUL_SETS
            change = merge_patch({"spec": {"replicas": workload.size}})
            try:
                await self.client.patch(kind, f"{workload.namespace}/{workload.name}", change)
            except errors.NotFound:
                continue


def _key(item: Object) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"
