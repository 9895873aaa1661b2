"""The surplus pod that a ReplicaSet creates during a handover: with the guard there is none.

Without it, that pod may preempt others. Then nothing is moved, and the reason says so.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bench.surplus import Surplus
from rescheduler.api.podmigration import MigrationPhase
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.config.policy import Configuration, Policy
from rescheduler.daemon.components import Rescheduler
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.api_resources import DEPLOYMENTS, EVENTS, Object, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.migrations.runtime_state import RuntimeState, RuntimeStateHolder
from rescheduler.steering.webhook.webhook_presence import WebhookPresence
from tests.e2e.permissions import DAEMON, kubeconfig_as
from tests.stories.migrations.moves import Moves
from tests.stories.migrations.workloads import stateful_set
from tests.stories.objects import PRIORITY_CLASSES
from tests.stories.observer import observing
from tests.stories.sandbox import AT_ONCE, Sandbox, node_of, until_usable
from tests.stories.steering.steered import MakeSteered
from tests.stories.steering.webhook_on_control_plane import StartWebhook
from tests.testbed import ControlPlane, Part

pytestmark = pytest.mark.control_plane(reason="starts the commands as processes of their own")


@pytest.fixture
def steering() -> str:
    return "webhook"


BYSTANDERS = ("bystander-1", "bystander-2")
EVERYTHING = [{"operator": "Exists"}]


class Done(NamedTuple):
    code: int
    out: str
    err: str


class Command(NamedTuple):
    kubeconfig: Path
    config: Path

    async def __call__(self, *arguments: str) -> Done:
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("rescheduler"), *arguments, "--config", str(self.config),
            env={"KUBECONFIG": str(self.kubeconfig), "PATH": "/usr/bin"},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await asyncio.wait_for(process.communicate(), 120)
        assert process.returncode is not None
        return Done(process.returncode, out.decode(), err.decode())


@pytest.fixture
def rescheduler(control_plane: ControlPlane, tmp_path: Path) -> Command:
    args = {"settleTime": "100ms", "minPodAge": "0s", "usageSource": "requests"}
    config = tmp_path / "config.json"
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        # Tests before this one have left what looks like an installation: where the Lease is has to be said.
        "leaderElection": {"resourceNamespace": "kube-system"},
        "profiles": [{"pluginConfig": [{"name": "Rescheduler", "args": args}]}],
    }
    config.write_text(json.dumps(content))
    return Command(control_plane.kubeconfig, config)


@pytest.fixture
async def sandbox(
    client: Client, namespace: str, start_kubelet: Callable[..., Awaitable[Any]]
) -> AsyncIterator[Sandbox]:
    """Three nodes of 8 cpu, and a class of pods that preempt others."""
    kubelet = await start_kubelet({"pods": [AT_ONCE]}, nodes=3)
    made = Sandbox(client, namespace, kubelet, await until_usable(client, kubelet, 3))
    high = {"metadata": {"name": f"high-{namespace}"}, "value": 1000}
    await client.create(PRIORITY_CLASSES, {"apiVersion": PRIORITY_CLASSES.api_version, **high})
    yield made
    await client.delete(PRIORITY_CLASSES, f"high-{namespace}")


async def crowd(sandbox: Sandbox) -> Object:
    """The pod to move is on the first node, the second is empty, the third is full of bystanders whose budget
    allows nothing."""
    first, second, third = sandbox.nodes
    await sandbox.cordon(second, third)
    # Its node is not free at once: for a while there is room nowhere.
    sandbox.behave({"match": {"labels": {"app": "web"}}, "startup": "0s", "termination": "10s"})
    pod = {"cpu": "6", "priorityClassName": f"high-{sandbox.namespace}", "terminationGracePeriodSeconds": 20}
    await sandbox.deployment(1, pod=pod)
    await sandbox.cordon(first)
    await sandbox.cordon(third, on=False)
    for name in BYSTANDERS:
        made = await sandbox.pod(name, metadata={"labels": {"app": "bystander"}}, cpu="3")
        await sandbox.until_pod_ready(made)
    await sandbox.budget("bystanders", app="bystander", minAvailable="100%")
    await sandbox.cordon(first, second, on=False)
    (source,) = await sandbox.pods()
    assert node_of(source) == first
    return source


async def bystanders(sandbox: Sandbox) -> set[str]:
    return {pod["metadata"]["name"] for pod in await sandbox.pods("bystander")}


async def test_high_priority_with_the_guard(
    sandbox: Sandbox, rescheduler: Command, start_webhook: StartWebhook
) -> None:
    """The pod is moved, and none is preempted."""
    source = await crowd(sandbox)
    await start_webhook()
    async with observing(sandbox.client, sandbox.namespace) as seen:
        done = await rescheduler("move", sandbox.key(source["metadata"]["name"]), "--to", sandbox.nodes[1])
    assert done.code == 0, done
    assert len(seen.created) == 1, "the copy, and no pod beside it"
    assert await bystanders(sandbox) == set(BYSTANDERS)


@pytest.mark.parametrize("is_dead", [False, True], ids=["is not installed", "is dead"])
async def test_where_the_webhook(
    is_dead: bool, sandbox: Sandbox, rescheduler: Command, start_webhook: StartWebhook
) -> None:
    """nothing is moved that would make its ReplicaSet preempt others."""
    source = await crowd(sandbox)
    name = sandbox.key(source["metadata"]["name"])
    if is_dead:
        process = await start_webhook()
        process.kill()
        await process.wait()
    done = await rescheduler("move", name, "--to", sandbox.nodes[1])
    assert done.code == 1, done
    assert "SurplusWouldPreempt" in done.err
    assert "bystander-1" in done.err
    explained = await rescheduler("explain", "pod", name)
    assert "SurplusWouldPreempt" in explained.out
    assert [pod["metadata"]["name"] for pod in await sandbox.pods()] == [source["metadata"]["name"]]
    assert await bystanders(sandbox) == set(BYSTANDERS)


@pytest.mark.full
@pytest.mark.parametrize("is_guarded", [True, False], ids=["with the guard", "without the guard"])
async def test_surplus_pods_of_ten_quiet_moves(
    is_guarded: bool, make_steered: MakeSteered, start_webhook: StartWebhook
) -> None:
    """With the guard there is no pod but the copies. Without it there are others; the figures are in
    docs/benchmarks.md."""
    steered = await make_steered(nodes=3)
    sandbox = steered.sandbox
    await sandbox.deployment(2)
    await sandbox.budget(minAvailable=2)
    moves, surplus = Moves(sandbox), Surplus()
    async with contextlib.AsyncExitStack() as stack:
        if is_guarded:
            await start_webhook()
            await stack.enter_async_context(steered.probing())
        seen = await stack.enter_async_context(observing(sandbox.client, sandbox.namespace))
        seen.pods.subscribe(surplus.changed)
        surplus.forget()
        await stack.enter_async_context(moves.executing())
        for _ in range(10):
            source = (await sandbox.pods())[0]
            key = await moves.create_migration(source, await sandbox.free_node())
            migration = await moves.until_finished(key)
            assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
            await sandbox.until_ready(2)
    counts = [len(each) for each in (surplus.created, surplus.bound, surplus.started)]
    print(f"surplus pods created, bound, started: {counts}")
    assert len(seen.created) == 10 + counts[0], (seen.created, surplus)
    assert (counts[0] == 0) is is_guarded
    assert min(seen.ready) == 2
    events = (await sandbox.client.list(EVENTS, namespace=sandbox.namespace)).items
    refused = [each["message"] for each in events if each["reason"] == "FailedCreate"]
    assert all("needs no new pod" in each for each in refused)


async def test_controller_manager_without_service_accounts(
    control_plane: ControlPlane, make_steered: MakeSteered, start_webhook: StartWebhook
) -> None:
    """Its pods are guarded against as well."""
    usual = control_plane.options
    # Such a cluster has to grant one account what its controllers need.
    grant = ("create", "clusterrolebinding", "all-controllers", "--clusterrole=cluster-admin")
    await asyncio.to_thread(control_plane.kubectl, *grant, "--user=system:kube-controller-manager")
    flags = {Part.CONTROLLER_MANAGER: ("--use-service-account-credentials=false",)}
    changed = replace(usual, flags={**usual.flags, **flags})
    await asyncio.to_thread(control_plane.restart, Part.CONTROLLER_MANAGER, changed)
    try:
        steered = await make_steered(nodes=3)
        sandbox = steered.sandbox
        await sandbox.deployment(1)
        await start_webhook()
        (source,) = await sandbox.pods()
        async with steered.probing(), observing(sandbox.client, sandbox.namespace) as seen:
            migration = await Moves(sandbox).move(source, await sandbox.free_node())
            await sandbox.until_ready(1)
        assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
        assert len(seen.created) == 1, seen.created
    finally:
        await asyncio.to_thread(control_plane.kubectl, "delete", "clusterrolebinding", "all-controllers")
        await asyncio.to_thread(control_plane.restart, Part.CONTROLLER_MANAGER, usual)


@pytest.mark.full
async def test_pods_wanted_during_the_move(make_steered: MakeSteered, start_webhook: StartWebhook) -> None:
    """They come as soon as the copy is adopted.

    A sibling is deleted and the workload scaled up in the middle of the move.
    """
    steered = await make_steered(nodes=3)
    sandbox = steered.sandbox
    await sandbox.deployment(3)
    await start_webhook()
    source, sibling, _ = await sandbox.pods()
    moves = Moves(sandbox)
    async with steered.probing(), moves.executing():
        key = await moves.create_migration(
            source, next(node for node in sandbox.nodes if node != node_of(source))
        )
        await moves.copy_of(key)
        await sandbox.client.delete(PODS, sandbox.key(sibling["metadata"]["name"]))
        await sandbox.client.patch(DEPLOYMENTS, sandbox.key("web"), merge_patch({"spec": {"replicas": 5}}))
        migration = await moves.until_finished(key)
        await sandbox.until_ready(5)
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status


# -- a client that depends on the webhook finds out whether it answers


@pytest.fixture
async def daemon(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> AsyncIterator[tuple[Rescheduler, WebhookPresence]]:
    """What the daemon executes with, as its service account."""
    account = await asyncio.to_thread(kubeconfig_as, control_plane, DAEMON, namespace, tmp_path)
    client = Client(HttpTransport(load_cluster_access(account)))
    runtime = RuntimeStateHolder(RuntimeState(Policy()))
    webhook = WebhookPresence(client, runtime, namespace)
    made = Rescheduler(
        client,
        Configuration(policy=Policy()),
        lease_at=f"{namespace}/rescheduler",
        runtime=runtime,
        webhook=webhook,
    )
    async with webhook.running(), made.watching(), made.executing():
        yield made, webhook
    await client.close()


async def test_nothing_is_evicted_when_the_webhook_has_died(
    sandbox: Sandbox,
    start_webhook: StartWebhook,
    daemon: tuple[Rescheduler, WebhookPresence],
    eventually: Callable[..., Awaitable[Any]],
) -> None:
    """It is registered, and was seen answering a moment ago."""
    await stateful_set(sandbox, 2)
    source = (await sandbox.pods())[0]
    moves = Moves(sandbox)
    process = await start_webhook()
    _, webhook = daemon

    async def answers() -> bool:
        return bool((await webhook.confirm(sandbox.namespace)).steers)

    await eventually(answers)
    process.kill()
    await process.wait()
    key = await moves.create_migration(source, await sandbox.free_node())
    migration = await moves.until(key, lambda each: each.status.failure)
    assert migration.status.failure == "Unsteered"
    assert "steering.rescheduler.dev" in migration.status.message
    assert {pod["metadata"]["uid"] for pod in await sandbox.pods()} >= {source["metadata"]["uid"]}


async def test_a_pod_that_would_return_to_its_cordoned_node_is_not_evicted(
    sandbox: Sandbox, rescheduler: Command
) -> None:
    await stateful_set(sandbox, 2, pod={"tolerations": EVERYTHING})
    source = (await sandbox.pods())[0]
    await sandbox.cordon(node_of(source))
    drained = await rescheduler("drain", node_of(source))
    assert drained.code == 1
    assert "ToleratesCordon" in drained.out + drained.err
    assert source["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in await sandbox.pods()}
