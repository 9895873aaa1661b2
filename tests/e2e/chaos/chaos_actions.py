"""Random actions of other clients on the cluster and on the programs under test."""

import asyncio
import contextlib
import random
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, Object, merge_patch
from rescheduler.kube.client import Client, Propagation
from tests.e2e.chaos.api_observer import POD_MIGRATIONS
from tests.e2e.chaos.chaos_programs import Program
from tests.e2e.chaos.chaos_workloads import CANT_GROW, MOVED_NAMESPACES, bare_pods
from tests.e2e.chaos.object_versions import FORGED, MAINTENANCE, MIGRATION_ID, MIGRATION_STATUS
from tests.testbed import ControlPlane, Part
from tests.testbed.fake_kubelet import FakeKubelet
from tests.testbed.fake_kubelet.nodes import NodeShape

__all__ = ["ChaosActions"]


@dataclass
class ChaosActions:
    rng: random.Random
    plane: ControlPlane
    client: Client
    kubelet: FakeKubelet
    shapes: dict[str, NodeShape]
    daemons: list[Program]
    webhook: Program
    initial_replicas: Mapping[str, int] = field(default_factory=dict)
    """Of Deployments, by key."""
    log: list[str] = field(default_factory=list)
    _control_plane_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def note(self, text: str) -> None:
        self.log.append(f"{datetime.now(UTC):%H:%M:%S.%f} {text}")

    # -- moves that are asked for

    async def move_a_pod(self) -> None:
        pods = [pod for pod in await self._pods() if pod["spec"].get("nodeName")]
        pod = self.rng.choice(pods)
        metadata = pod["metadata"]
        target = self.rng.choice(["", *self.shapes])
        spec = {
            "pod": {"name": metadata["name"], "uid": metadata["uid"]},
            "sourceNode": pod["spec"]["nodeName"],
            **({"targetNode": target} if target and target != pod["spec"]["nodeName"] else {}),
        }
        item = {
            "apiVersion": POD_MIGRATIONS.api_version,
            "kind": POD_MIGRATIONS.kind,
            "metadata": {"namespace": metadata["namespace"], "generateName": "asked-"},
            "spec": spec,
        }
        await self.client.create(POD_MIGRATIONS, item)

    async def cancel_a_migration(self) -> None:
        move = self.rng.choice(await self._unfinished())
        await self.client.delete(POD_MIGRATIONS, _key(move))
        self.note(f"cancelled {_key(move)}")

    async def begin_or_end_maintenance(self) -> None:
        nodes = (await self.client.list(NODES.as_json)).items
        marked = [node for node in nodes if MAINTENANCE in node["metadata"]["labels"]]
        ends = len(marked) >= 2 or (marked and self.rng.random() < 0.5)
        node = self.rng.choice(marked if ends else nodes)["metadata"]["name"]
        change = {"metadata": {"labels": {MAINTENANCE: None if ends else "true"}}}
        await self.client.patch(NODES, node, merge_patch(change))
        self.note(f"maintenance of {node} {'ended' if ends else 'began'}")

    # -- what happens to the programs

    async def kill_a_daemon(self) -> None:
        program = self.rng.choice(self.daemons)
        await program.kill()
        self.note(f"killed {program.name}")
        await asyncio.sleep(self.rng.uniform(0.0, 6.0))
        await program.start()

    async def freeze_a_daemon(self) -> None:
        program = self.rng.choice(self.daemons)
        program.send(signal.SIGSTOP)
        self.note(f"froze {program.name}")
        await asyncio.sleep(self.rng.uniform(1.0, 10.0))
        program.send(signal.SIGCONT)

    async def kill_the_webhook(self) -> None:
        await self.webhook.kill()
        self.note("killed the webhook")
        await asyncio.sleep(self.rng.uniform(2.0, 10.0))
        await self.webhook.start()

    async def kill_the_api_server(self) -> None:
        await self._restart(Part.API_SERVER)

    async def kill_etcd(self) -> None:
        await self._restart(Part.ETCD)

    async def _restart(self, part: Part) -> None:
        async with self._control_plane_lock:
            self.note(f"killing {part}")
            await asyncio.to_thread(self.plane.restart, part, kill=True)
            self.note(f"{part} is back")

    # -- what happens to nodes

    async def delete_a_node(self) -> None:
        name = self.rng.choice(self._usable_nodes())
        await self.client.delete(NODES, name)
        self.note(f"deleted node {name}")
        await asyncio.sleep(self.rng.uniform(8.0, 25.0))
        await self.until_done(lambda: self.kubelet.register([self.shapes[name]]))

    async def silence_a_node(self) -> None:
        name = self.rng.choice(self._usable_nodes())
        self.kubelet.kill(name)
        self.note(f"node {name} is silent")
        await asyncio.sleep(self.rng.uniform(18.0, 30.0))
        self.kubelet.revive(name)
        self.note(f"node {name} is back")

    async def cordon_and_uncordon(self) -> None:
        name = self.rng.choice(self._usable_nodes())
        await asyncio.to_thread(self.plane.kubectl, "cordon", name)
        self.note(f"kubectl cordon {name}")
        await asyncio.sleep(self.rng.uniform(2.0, 12.0))
        await asyncio.to_thread(self.plane.kubectl, "uncordon", name)
        self.note(f"kubectl uncordon {name}")

    # -- what happens to pods

    async def evict_a_pod(self) -> None:
        await self._evict(self.rng.choice(await self._pods()))

    async def evict_a_source(self) -> None:
        move = self.rng.choice(await self._unfinished())
        key = f"{move['metadata']['namespace']}/{move['spec']['pod']['name']}"
        await self._evict(await self.client.get(PODS.as_json, key))

    async def _evict(self, pod: Object) -> None:
        await self.client.evict(_key(pod), uid=pod["metadata"]["uid"])
        self.note(f"evicted {_key(pod)}")

    async def delete_a_pod(self) -> None:
        owned = [pod for pod in await self._pods() if pod["metadata"].get("ownerReferences")]
        pod = self.rng.choice(owned)
        await self.client.delete(PODS, _key(pod))
        self.note(f"deleted {_key(pod)}")

    async def delete_a_copy(self) -> None:
        pod = self.rng.choice(await self._copies())
        await self.client.delete(PODS, _key(pod))
        self.note(f"deleted copy {_key(pod)}")

    async def unmark_a_copy(self) -> None:
        await self._unmark(self.rng.choice(await self._copies()))

    async def unmark_a_source(self) -> None:
        await self._unmark(self.rng.choice([pod for pod in await self._pods() if _is_marked(pod)]))

    async def _unmark(self, pod: Object) -> None:
        labels = {MIGRATION_ID: None, MIGRATION_STATUS: None}
        await self.client.patch(PODS, _key(pod), merge_patch({"metadata": {"labels": labels}}))
        self.note(f"removed the marks of {_key(pod)}")

    async def forge_marks_on_a_pod(self) -> None:
        """Copy the labels of a running migration to another pod of its namespace."""
        move = self.rng.choice(await self._unfinished())
        namespace, name = move["metadata"]["namespace"], move["metadata"]["name"]
        pods = [pod for pod in await self._pods() if pod["metadata"]["namespace"] == namespace]
        pod = self.rng.choice(
            [each for each in pods if each["metadata"]["name"] != move["spec"]["pod"]["name"]]
        )
        change = {
            "labels": {MIGRATION_ID: name, MIGRATION_STATUS: "in-progress"},
            "annotations": {FORGED: "true"},
        }
        await self.client.patch(PODS, _key(pod), merge_patch({"metadata": change}))
        self.note(f"forged marks of {name} on {_key(pod)}")

    async def make_missing_bare_pods(self) -> None:
        there = {pod["metadata"]["labels"].get("app") for pod in await self._pods()}
        for pod in bare_pods(self.kubelet.name):
            if pod["metadata"]["name"] not in there:
                await self.client.create(PODS, pod)
                self.note(f"created {_key(pod)} again")

    # -- what happens to workloads

    async def roll_out(self) -> None:
        workload = self.rng.choice(await self._deployments())
        template = {"metadata": {"annotations": {"revision": f"{self.rng.random()}"}}}
        await self.client.patch(DEPLOYMENTS, _key(workload), merge_patch({"spec": {"template": template}}))
        self.note(f"rollout of {_key(workload)}")

    async def scale(self) -> None:
        workload = self.rng.choice(await self._deployments())
        replicas = max(1, workload["spec"]["replicas"] + self.rng.choice([-1, 1, 2]))
        await self._scale(workload, min(replicas, max(5, self.initial_replicas.get(_key(workload), 0))))

    async def scale_to_zero_and_back(self) -> None:
        workload = self.rng.choice(await self._deployments())
        replicas = workload["spec"]["replicas"] or 1
        await self._scale(workload, 0)
        await asyncio.sleep(self.rng.uniform(2.0, 8.0))
        await self.until_done(lambda: self._scale(workload, replicas))

    async def _scale(self, workload: Object, replicas: int) -> None:
        change = merge_patch({"spec": {"replicas": replicas}})
        await self.client.patch(DEPLOYMENTS, _key(workload), change)
        self.note(f"scaled {_key(workload)} to {replicas}")

    async def delete_a_workload_and_make_it_again(self) -> None:
        kind = self.rng.choice([DEPLOYMENTS, DEPLOYMENTS, STATEFUL_SETS])
        found = [each for each in (await self.client.list(kind)).items if _is_moved(each)]
        workload = self.rng.choice(found)
        propagation: Propagation = self.rng.choice(["Background", "Foreground"])
        await self.client.delete(kind, _key(workload), propagation=propagation)
        self.note(f"deleted {kind.kind} {_key(workload)}")
        kept = {name: workload["metadata"][name] for name in ("namespace", "name")}
        again = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": kept,
            "spec": workload["spec"],
        }
        await asyncio.sleep(self.rng.uniform(1.0, 6.0))
        await self._until_collected(workload)
        await self.until_done(lambda: self.client.create(kind, again))
        self.note(f"created {kind.kind} {_key(workload)} again")

    async def _until_collected(self, workload: Object) -> None:
        """Wait until the garbage collector has deleted what the workload owned.

        It does not learn of a deletion if its watch broke meanwhile and a new object has the same name: then
        it takes the old one's dependents for the new one's, and leaves them for good.
        """
        namespace, uid = workload["metadata"]["namespace"], workload["metadata"]["uid"]
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(errors.KubeError):
                    lists = [
                        await self.client.list(kind, namespace=namespace)
                        for kind in (REPLICA_SETS, PODS.as_json)
                    ]
                    found = [item["metadata"] for each in lists for item in each.items]
                    if not any(_is_owned_by(uid, each) and "deletionTimestamp" not in each for each in found):
                        return
                await asyncio.sleep(0.5)

    async def restore_replicas(self) -> None:
        """Give Deployments back the replicas that their budgets need: with fewer, no pod can be evicted."""
        for workload in await self._deployments():
            wanted = self.initial_replicas.get(_key(workload), 0)
            if workload["spec"]["replicas"] < wanted:
                await self._scale(workload, wanted)

    # -- what there is

    async def _pods(self) -> list[Object]:
        pods = (await self.client.list(PODS.as_json)).items
        return [pod for pod in pods if _is_moved(pod) and "deletionTimestamp" not in pod["metadata"]]

    async def _copies(self) -> list[Object]:
        """Pods that a migration owns, or that have its marks and are named like a copy of a bare pod."""
        return [
            pod
            for pod in await self._pods()
            if any(owner["kind"] == "PodMigration" for owner in pod["metadata"].get("ownerReferences", ()))
            or (pod["metadata"]["name"].startswith("rescheduled-") and _is_marked(pod))
        ]

    async def _unfinished(self) -> list[Object]:
        moves = (await self.client.list(POD_MIGRATIONS)).items
        return [
            each
            for each in moves
            if (each.get("status") or {}).get("phase") not in {"Completed", "Failed"}
            and "deletionTimestamp" not in each["metadata"]
        ]

    async def _deployments(self) -> list[Object]:
        """Those that can grow: not under a full quota, and not so large that others have to make room."""
        found = [each for each in (await self.client.list(DEPLOYMENTS)).items if _is_moved(each)]
        return [each for each in found if _key(each) not in CANT_GROW]

    def _usable_nodes(self) -> list[str]:
        """Not the one whose cordon is forged: it has to stay as it is."""
        return [
            name
            for name, played in sorted(self.kubelet.played.items())
            if FORGED not in played.node["metadata"].get("annotations", {}) and not self.kubelet.is_dead(name)
        ]

    async def until_done(self, act: Callable[[], Awaitable[object]]) -> None:
        """What was broken on purpose is repaired, even if the API server is away for a moment."""
        async with asyncio.timeout(60):
            while True:
                try:
                    await act()
                except (errors.KubeError, ExceptionGroup):
                    await asyncio.sleep(0.5)
                else:
                    return


def _is_owned_by(uid: str, metadata: Object) -> bool:
    return any(owner["uid"] == uid for owner in metadata.get("ownerReferences", ()))


def _is_moved(item: Object) -> bool:
    return item["metadata"]["namespace"] in MOVED_NAMESPACES


def _is_marked(pod: Object) -> bool:
    labels = pod["metadata"].get("labels", {})
    return MIGRATION_ID in labels and labels.get(MIGRATION_STATUS) != "completed"


def _key(item: Object) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"
