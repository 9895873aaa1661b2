"""What happens to evictions when parts of rescheduler are missing, and what clients can and can't do."""

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest

from rescheduler.api.well_known_names import (
    EVICTION_TURNS_CONFIG_MAP,
    KARPENTER_NODE_POOL_LABEL,
    SAFE_EVICTIONS_DEADLINE_ANNOTATION,
)
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube import errors
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.api_resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    VALIDATING_WEBHOOKS,
    Object,
    merge_patch,
)
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from tests.e2e.daemon.processes import write_config
from tests.e2e.evictions.conftest import Installed
from tests.stories.migrations.workloads import stateful_set
from tests.stories.objects import deployment, pod_spec
from tests.stories.observer import observing
from tests.stories.sandbox import Sandbox, node_of
from tests.stories.waiting import until, until_gone
from tests.testbed import ControlPlane
from tests.webhook_installed import configuration_of


async def test_a_dry_run_passes_and_records_nothing(installed: Installed, sandbox: Sandbox) -> None:
    """kubectl would retry a refused dry run until its timeout."""
    await sandbox.deployment(1)
    await installed.start()
    (pod,) = await sandbox.pods()
    done = await installed.drain(node_of(pod), "--dry-run=server")
    assert done.code == 0, done.out
    assert not await installed.migrations()
    assert [each["metadata"]["uid"] for each in await sandbox.pods()] == [pod["metadata"]["uid"]]


@pytest.mark.full
async def test_without_a_daemon_evictions_pass(installed: Installed, sandbox: Sandbox) -> None:
    await sandbox.deployment(1)
    await installed.start_webhook()
    (pod,) = await sandbox.pods()
    done = await installed.drain(node_of(pod))
    assert done.code == 0, done.out
    assert "no daemon leads" in done.out
    assert not await installed.migrations()


async def test_while_paused_evictions_pass(installed: Installed, sandbox: Sandbox) -> None:
    await sandbox.deployment(1)
    await installed.start()
    await installed.cluster.run("pause")
    (pod,) = await sandbox.pods()
    done = await installed.drain(node_of(pod))
    assert done.code == 0, done.out
    assert "rescheduler is paused" in done.out

    def is_said(events: Mapping[str, Object]) -> bool:
        found = [each for each in events.values() if each["reason"] == "EvictionPassed"]
        kinds = {each["involvedObject"]["kind"] for each in found}
        return kinds >= {"Pod", "Deployment", "Node"} and all(
            "is paused" in each["message"] for each in found
        )

    await until(sandbox.client, EVENTS, "", is_said, timeout_s=30)


async def test_with_the_webhook_killed_midway_nothing_is_stuck(
    installed: Installed, sandbox: Sandbox
) -> None:
    """As without rescheduler: the eviction is up to the budget, which allows it here."""
    sandbox.behave({"startup": "0s", "termination": "0s"})
    await sandbox.deployment(1)
    await installed.start()
    (pod,) = await sandbox.pods()
    sandbox.start_slowly()
    draining = asyncio.create_task(installed.drain(node_of(pod)))
    assert installed.webhook is not None
    await installed.webhook.until_said("EvictionIntercepted")
    installed.webhook.kill()
    done = await draining
    assert done.code == 0, done.out


async def test_of_two_pods_of_a_set_one_goes(installed: Installed, sandbox: Sandbox) -> None:
    """No budget covers them, and no node is drained: the webhook writes whose turn it is."""
    await stateful_set(sandbox, 3)
    await installed.start()
    assert installed.webhook is not None

    async def evict(name: str) -> bool:
        try:
            await sandbox.client.with_quick_retries().evict(f"{sandbox.namespace}/{name}")
        except errors.Overloaded:
            return False
        return True

    assert sorted(await asyncio.gather(evict("web-0"), evict("web-1"))) == [False, True]
    found = await sandbox.client.get(CONFIG_MAPS, f"{sandbox.namespace}/{EVICTION_TURNS_CONFIG_MAP}")
    (turn,) = found["data"].values()
    assert turn.startswith((f"{sandbox.namespace}/web-0 ", f"{sandbox.namespace}/web-1 "))
    assert not await installed.migrations()


@pytest.mark.full
async def test_a_namespace_can_not_extend_the_deadline(installed: Installed, sandbox: Sandbox) -> None:
    """Thirty clients at a time evict one pod whose copy never gets ready. There is one move, and the
    evictions pass after the deadline of the configuration."""
    deadline_s = 10
    annotations = {SAFE_EVICTIONS_DEADLINE_ANNOTATION: "1000h"}
    await sandbox.client.patch(
        NAMESPACES, sandbox.namespace, merge_patch({"metadata": {"annotations": annotations}})
    )
    await sandbox.deployment(1)
    await installed.start(safeEvictions={"deadline": f"{deadline_s}s"})
    (pod,) = await sandbox.pods()
    uid = pod["metadata"]["uid"]
    sandbox.start_slowly()

    async def evict() -> bool:
        try:
            await sandbox.client.with_quick_retries().evict(sandbox.key(pod["metadata"]["name"]), uid=uid)
        except errors.Overloaded:
            return False
        except errors.NotFound:
            pass  # another client was faster
        return True

    began = time.monotonic()
    has_passed, seconds = False, 0.0
    while not has_passed:
        has_passed = any(await asyncio.gather(*(evict() for _ in range(30))))
        seconds = time.monotonic() - began
        assert seconds < 3 * deadline_s, "held although the deadline of the configuration is over"
    # The time may count from the creation timestamp of the PodMigration, which has no fractions of a second.
    assert seconds > deadline_s - 1
    assert [each["metadata"]["name"] for each in await installed.migrations()] == [f"eviction-{uid}"]
    assert installed.webhook is not None
    assert len(installed.webhook.said("EvictionIntercepted")) == 1
    assert all(each["metadata"]["uid"] != uid for each in await sandbox.pods())


async def test_no_target_waits_for_room(installed: Installed, sandbox: Sandbox) -> None:
    """The copy is Pending without a nomination, so that an autoscaler provides a node for it."""
    first, *others = sandbox.nodes
    await sandbox.cordon(*others)
    await sandbox.deployment(1)
    await sandbox.budget(minAvailable=1)
    await installed.start()
    async with observing(sandbox.client, sandbox.namespace) as seen:
        draining = asyncio.create_task(installed.drain(first))
        pending = await _until_pending(sandbox)
        assert "nominatedNodeName" not in pending["status"]
        await sandbox.cordon(others[0], on=False)
        done = await draining
    assert done.code == 0, done.out
    assert min(seen.ready) >= 1
    assert [node_of(each) for each in await sandbox.until_ready(1)] == [others[0]]


async def _until_pending(sandbox: Sandbox) -> Object:
    async with asyncio.timeout(30):
        while True:
            for pod in await sandbox.pods():
                conditions = pod["status"].get("conditions") or ()
                if any(each.get("reason") == "Unschedulable" for each in conditions):
                    return pod
            await asyncio.sleep(0.1)


@pytest.mark.full
@pytest.mark.parametrize("with_daemon", [True, False], ids=["with a daemon", "without a daemon"])
@pytest.mark.parametrize("command", ["move", "drain", "apply"])
async def test_a_person_moves_pods(
    command: str, with_daemon: bool, installed: Installed, sandbox: Sandbox, tmp_path: Path
) -> None:
    """The user evicts as a client that the webhook doesn't know; but then the copy is ready. Nothing is held
    up, no second move is recorded, and no replica was missing. Evictions by a daemon never reach the
    webhook."""
    source, *others = sandbox.nodes
    apps = ["web", "api"]
    await sandbox.cordon(*others)
    for app in apps:
        await sandbox.deployment(1, app=app, pod={"cpu": "2"})
        await sandbox.budget(app, app=app, minAvailable=1)
    await sandbox.cordon(*others, on=False)
    policy = {"moveUnderZeroBudget": "always", "imbalanceThreshold": 10}
    if with_daemon:
        await installed.start_daemon(**policy)
    await installed.start_webhook()
    file = write_config(tmp_path / "person.json", **policy)
    content = json.loads(file.read_text())
    content["leaderElection"]["resourceNamespace"] = sandbox.namespace
    file.write_text(json.dumps(content))
    sources = {app: sandbox.key((await sandbox.pods(app))[0]["metadata"]["name"]) for app in apps}
    arguments = {
        "move": (sources["web"], "--to", others[0]),
        "drain": (source,),
        "apply": ("--strategy", "LoadBalancing", "--yes"),
    }[command]
    async with (
        observing(sandbox.client, sandbox.namespace, "web") as web,
        observing(sandbox.client, sandbox.namespace, "api") as api,
    ):
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("rescheduler"), command, *arguments, "--config", file,
            env={"KUBECONFIG": str(installed.cluster.admin)},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        out, _ = await asyncio.wait_for(process.communicate(), 90)
    assert process.returncode == 0, out.decode()
    assert min(web.ready + api.ready) >= 1
    made = await installed.migrations()
    strategies = {each["spec"].get("strategy", "Manual") for each in made}
    assert strategies == {{"move": "Manual", "drain": "NodeMaintenance", "apply": "LoadBalancing"}[command]}
    moved = [app for app in apps if node_of((await sandbox.until_ready(1, app=app))[0]) != source]
    assert len(moved) == (2 if command == "drain" else 1)
    gone = {sources[app] for app in moved}
    await sandbox.pod("bare")
    await sandbox.client.evict(sandbox.key("bare"))
    seen = await _evictions_seen(installed, sandbox.key("bare"))
    assert seen == {sandbox.key("bare"), *(() if with_daemon else gone)}


async def test_evictions_in_an_excluded_namespace(installed: Installed, sandbox: Sandbox) -> None:
    """They never reach the webhook: the API server knows which these are."""
    await installed.start()
    excluded = replace(sandbox, namespace="kube-system")
    name = f"bare-{sandbox.namespace}"
    for each in (excluded, sandbox):
        await each.until_pod_ready(await each.pod(name))
        await each.client.evict(each.key(name))
    assert await _evictions_seen(installed, sandbox.key(name)) == {sandbox.key(name)}
    for each in (excluded, sandbox):
        await until_gone(each.client, PODS.as_json, each.key(name))


async def _evictions_seen(installed: Installed, last: str) -> set[str]:
    """Return the pods whose evictions the webhook was asked about and let pass, up to that of the last."""
    assert installed.webhook is not None
    said: list[Object] = []
    while last not in {line["pod"] for line in said}:
        said = await installed.webhook.until_said("EvictionPassed", len(said) + 1)
    return {line["pod"] for line in said}


async def test_a_drain_meets_the_deadline_of_karpenter(installed: Installed, sandbox: Sandbox) -> None:
    """Its NodeClaim says when the node goes, whatever runs on it: more pods than otherwise move at once."""
    source, *others = sandbox.nodes
    apps = [f"app-{number}" for number in range(6)]
    await sandbox.cordon(*others)
    for app in apps:
        await sandbox.client.create(
            DEPLOYMENTS, deployment(sandbox.namespace, app, 1, pod_spec(sandbox.kubelet.name))
        )
    for app in apps:
        await sandbox.until_ready(1, app=app)
    await sandbox.cordon(*others, on=False)
    await _claim_node(installed.control_plane, sandbox, source, timedelta(minutes=1))
    sandbox.start_slowly()
    await installed.start()
    draining = asyncio.create_task(installed.drain(source))

    def moving(seen: Mapping[str, Object]) -> int:
        return sum(each.get("status", {}).get("phase") == "InProgress" for each in seen.values())

    await until(sandbox.client, POD_MIGRATIONS, sandbox.namespace, lambda seen: moving(seen) == len(apps))
    sandbox.behave()
    done = await draining
    assert done.code == 0, done.out
    await asyncio.to_thread(installed.control_plane.kubectl, "delete", "nodeclaims", source)


async def _claim_node(
    control_plane: ControlPlane, sandbox: Sandbox, node: str, removed_in: timedelta
) -> None:
    """Create a NodeClaim as if Karpenter had created the node, and were about to remove it."""
    removed_at = datetime.now(UTC) + removed_in
    name = {"plural": "nodeclaims", "singular": "nodeclaim", "kind": "NodeClaim"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "nodeclaims.karpenter.sh"},
        "spec": {"group": "karpenter.sh", "scope": "Cluster", "names": name, "versions": [version]},
    }  # fmt: skip
    timestamp = {"karpenter.sh/nodeclaim-termination-timestamp": removed_at.isoformat(timespec="seconds")}
    claim = {
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "status": {"nodeName": node},
        "metadata": {"name": node, "annotations": timestamp},
    }  # fmt: skip
    for item in (crd, claim):
        await asyncio.to_thread(control_plane.kubectl, "apply", "-f", "-", stdin=json.dumps(item))
        if item is crd:
            await asyncio.to_thread(control_plane.wait_until_served, "nodeclaims.karpenter.sh")
    labels = {KARPENTER_NODE_POOL_LABEL: "default"}
    await sandbox.client.patch(NODES, node, merge_patch({"metadata": {"labels": labels}}))


@pytest.mark.full
async def test_a_forged_review_moves_nothing(installed: Installed, sandbox: Sandbox) -> None:
    """A client that reaches the port but does not know the path can't have another user's pod moved."""
    await sandbox.deployment(1)
    await installed.start()
    (pod,) = await sandbox.pods()
    request = {
        "uid": "1", "name": pod["metadata"]["name"], "namespace": sandbox.namespace, "operation": "CREATE",
        "subResource": "eviction", "userInfo": {"username": "system:admin"},
        "object": {"metadata": {"name": pod["metadata"]["name"]}},
    }  # fmt: skip
    insecure = ssl.create_default_context()
    insecure.check_hostname, insecure.verify_mode = False, ssl.CERT_NONE
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=insecure)) as session:
        for path in ("/evictions/", "/evictions/0", f"/evictions/{'0' * 32}", "/mutate", "/guard"):
            url = f"https://127.0.0.1:{installed.port}{path}"
            async with session.post(url, data=json.dumps({"request": request})) as response:
                await response.read()
        configuration = await sandbox.client.get(VALIDATING_WEBHOOKS, configuration_of(sandbox.namespace))
        real = configuration["webhooks"][1]["clientConfig"]["url"]
        assert not await installed.migrations()
        began = time.perf_counter()
        async with session.post(real, data=json.dumps({"request": request})) as response:
            answer = json.loads(await response.read())["response"]
        assert time.perf_counter() - began < 1
    assert (answer["allowed"], answer["status"]["code"]) == (False, 429), (
        "the path alone makes the difference"
    )


async def test_its_account_can_request_nothing_else(
    installed: Installed, sandbox: Sandbox, tmp_path: Path
) -> None:
    """What a compromised webhook can do: one make-before-break move per pod, to a node of the daemon's
    choice."""
    stolen = installed.write_stolen_kubeconfig(tmp_path)
    await sandbox.deployment(1)
    (pod,) = await sandbox.pods()
    uid = pod["metadata"]["uid"]
    spec = {
        "pod": {"name": pod["metadata"]["name"], "uid": uid}, "sourceNode": node_of(pod),
        "strategy": "Eviction", "handover": "Adopt",
    }  # fmt: skip
    good: Object = {"metadata": {"name": f"eviction-{uid}", "namespace": sandbox.namespace}, "spec": spec}
    attempts = [
        {**good, "metadata": {**good["metadata"], "name": "another"}},
        {
            **good,
            "metadata": {**good["metadata"], "annotations": {"rescheduler.dev/includes-system": "true"}},
        },
        {**good, "metadata": {**good["metadata"], "finalizers": ["rescheduler.dev/unfinished"]}},
        {**good, "spec": {**spec, "strategy": "Manual"}},
        {**good, "spec": {**spec, "handover": "Evict"}},
        {**good, "spec": {**spec, "handover": "Auto"}},
        {**good, "spec": {**spec, "targetNode": await sandbox.free_node()}},
    ]
    about = {"apiVersion": POD_MIGRATIONS.api_version, "kind": POD_MIGRATIONS.kind}
    webhook = Client(HttpTransport(load_cluster_access(stolen)))
    try:
        for each in attempts:
            with pytest.raises(errors.Forbidden):
                await webhook.create(POD_MIGRATIONS, {**about, **each})
        await webhook.create(POD_MIGRATIONS, {**about, **good})
        with pytest.raises(errors.AlreadyExists):
            await webhook.create(POD_MIGRATIONS, {**about, **good})
        with pytest.raises(errors.Forbidden):
            await webhook.delete(POD_MIGRATIONS, sandbox.key(f"eviction-{uid}"))
        with pytest.raises(errors.Forbidden):
            await webhook.evict(sandbox.key(pod["metadata"]["name"]), uid=uid)
        with pytest.raises(errors.Forbidden):
            await webhook.delete(PODS, sandbox.key(pod["metadata"]["name"]))
    finally:
        await webhook.close()
