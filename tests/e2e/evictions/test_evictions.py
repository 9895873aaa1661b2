"""What becomes of evictions when parts of rescheduler are missing, and what clients can and can't do."""

import asyncio
import json
import ssl
import time

import aiohttp
import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube import errors
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.api_resources import VALIDATING_WEBHOOKS, Object
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from tests.e2e.evictions.conftest import Installed
from tests.e2e.facts.observer import observing
from tests.e2e.facts.stage import Stage, node_of
from tests.webhook_installed import configuration_of


async def test_a_dry_run_passes_and_records_nothing(installed: Installed, stage: Stage) -> None:
    """kubectl would retry a refused dry run until its timeout."""
    await stage.deployment(1)
    await installed.start()
    (pod,) = await stage.pods()
    done = await installed.drain(node_of(pod), "--dry-run=server")
    assert done.code == 0, done.out
    assert not await installed.migrations()
    assert [each["metadata"]["uid"] for each in await stage.pods()] == [pod["metadata"]["uid"]]


@pytest.mark.full
async def test_without_a_daemon_evictions_pass(installed: Installed, stage: Stage) -> None:
    await stage.deployment(1)
    await installed.start_webhook()
    (pod,) = await stage.pods()
    done = await installed.drain(node_of(pod))
    assert done.code == 0, done.out
    assert "no daemon leads" in done.out
    assert not await installed.migrations()


@pytest.mark.full
async def test_while_paused_evictions_pass(installed: Installed, stage: Stage) -> None:
    await stage.deployment(1)
    await installed.start()
    await installed.cluster.run("pause")
    (pod,) = await stage.pods()
    done = await installed.drain(node_of(pod))
    assert done.code == 0, done.out
    assert "rescheduler is paused" in done.out


async def test_with_the_webhook_killed_midway_nothing_is_stuck(installed: Installed, stage: Stage) -> None:
    """As without rescheduler: the eviction is up to the budget, which allows it here."""
    stage.behave({"startup": "0s", "termination": "0s"})
    await stage.deployment(1)
    await installed.start()
    (pod,) = await stage.pods()
    stage.start_slowly()
    draining = asyncio.create_task(installed.drain(node_of(pod)))
    assert installed.webhook is not None
    await installed.webhook.until_said("EvictionIntercepted")
    installed.webhook.kill()
    done = await draining
    assert done.code == 0, done.out


async def test_no_target_waits_for_room(installed: Installed, stage: Stage) -> None:
    """The copy is Pending without a nomination, so that an autoscaler provides a node for it."""
    first, *others = stage.nodes
    await stage.cordon(*others)
    await stage.deployment(1)
    await stage.budget(minAvailable=1)
    await installed.start()
    async with observing(stage.client, stage.namespace) as seen:
        draining = asyncio.create_task(installed.drain(first))
        pending = await _until_pending(stage)
        assert "nominatedNodeName" not in pending["status"]
        await stage.cordon(others[0], on=False)
        done = await draining
    assert done.code == 0, done.out
    assert min(seen.ready) >= 1
    assert [node_of(each) for each in await stage.until_ready(1)] == [others[0]]


async def _until_pending(stage: Stage) -> Object:
    async with asyncio.timeout(30):
        while True:
            for pod in await stage.pods():
                conditions = pod["status"].get("conditions") or ()
                if any(each.get("reason") == "Unschedulable" for each in conditions):
                    return pod
            await asyncio.sleep(0.1)


@pytest.mark.full
@pytest.mark.parametrize("with_daemon", [True, False], ids=["with a daemon", "without a daemon"])
async def test_a_person_moves_a_pod(with_daemon: bool, installed: Installed, stage: Stage) -> None:
    """The person evicts as nobody that the webhook knows; but then the copy is ready."""
    await stage.deployment(1)
    await stage.budget(minAvailable=1)
    if with_daemon:
        await installed.start_daemon()
    await installed.start_webhook()
    (pod,) = await stage.pods()
    target = await stage.free_node()
    config = ("--config", str(installed.cluster.config))
    async with observing(stage.client, stage.namespace) as seen:
        name = pod["metadata"]["name"]
        process = await installed.cluster.start(
            installed.cluster.admin, "move", name, "--to", target, *config
        )
        out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, (out, err)
    assert min(seen.ready) >= 1
    assert [node_of(each) for each in await stage.until_ready(1)] == [target]


@pytest.mark.full
async def test_a_forged_review_moves_nothing(installed: Installed, stage: Stage) -> None:
    """Whoever reaches the port but does not know the path can't have a pod of another user moved."""
    await stage.deployment(1)
    await installed.start()
    (pod,) = await stage.pods()
    request = {
        "uid": "1", "name": pod["metadata"]["name"], "namespace": stage.namespace, "operation": "CREATE",
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
        configuration = await stage.client.get(VALIDATING_WEBHOOKS, configuration_of(stage.namespace))
        real = configuration["webhooks"][1]["clientConfig"]["url"]
        assert not await installed.migrations()
        began = time.perf_counter()
        async with session.post(real, data=json.dumps({"request": request})) as response:
            answer = json.loads(await response.read())["response"]
        assert time.perf_counter() - began < 1
    assert (answer["allowed"], answer["status"]["code"]) == (False, 429), (
        "the path alone makes the difference"
    )


async def test_its_account_can_request_nothing_else(installed: Installed, stage: Stage) -> None:
    """What a compromised webhook can do: one make-before-break move per pod, to a node of the daemon's
    choice."""
    await stage.deployment(1)
    (pod,) = await stage.pods()
    uid = pod["metadata"]["uid"]
    spec = {
        "pod": {"name": pod["metadata"]["name"], "uid": uid}, "sourceNode": node_of(pod),
        "strategy": "Eviction", "handover": "Adopt",
    }  # fmt: skip
    good: Object = {"metadata": {"name": f"eviction-{uid}", "namespace": stage.namespace}, "spec": spec}
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
        {**good, "spec": {**spec, "targetNode": await stage.free_node()}},
    ]
    about = {"apiVersion": POD_MIGRATIONS.api_version, "kind": POD_MIGRATIONS.kind}
    webhook = Client(HttpTransport(load_cluster_access(installed.webhook_account)))
    try:
        for each in attempts:
            with pytest.raises(errors.Forbidden):
                await webhook.create(POD_MIGRATIONS, {**about, **each})
        await webhook.create(POD_MIGRATIONS, {**about, **good})
        with pytest.raises(errors.AlreadyExists):
            await webhook.create(POD_MIGRATIONS, {**about, **good})
        with pytest.raises(errors.Forbidden):
            await webhook.delete(POD_MIGRATIONS, stage.key(f"eviction-{uid}"))
        with pytest.raises(errors.Forbidden):
            await webhook.evict(stage.key(pod["metadata"]["name"]), uid=uid)
        with pytest.raises(errors.Forbidden):
            await webhook.delete(PODS, stage.key(pod["metadata"]["name"]))
    finally:
        await webhook.close()
