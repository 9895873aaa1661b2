"""Fake nodes with real controllers and a real scheduler, as kubectl and the controllers see them."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import DEPLOYMENTS, JOBS
from rescheduler.kube.client import Client
from tests.testbed import ControlPlane
from tests.testbed.fake_kubelet.nodes import KUBELET_LABEL, is_ready

Object = dict[str, Any]
Eventually = Callable[..., Awaitable[Any]]


def pod_spec(kubelet: str, image: str = "shop/web:1", **more: Any) -> Object:
    container = {"name": "main", "image": image, "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    # So long that no pod is taken off a lost node during a test.
    patient = [
        {
            "key": f"node.kubernetes.io/{key}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 600,
        }
        for key in ("not-ready", "unreachable")
    ]
    return {
        "nodeSelector": {KUBELET_LABEL: kubelet},
        "containers": [container],
        "tolerations": patient,
    } | more


def pod(namespace: str, name: str, kubelet: str, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(kubelet, **spec)}


def condition(item: Object | None, name: str) -> str:
    conditions = (item or {}).get("status", {}).get("conditions") or ()
    return next((each["status"] for each in conditions if each["type"] == name), "")


class Pods:
    """Looks at one pod, again and again."""

    def __init__(self, client: Client, key: str) -> None:
        self.client = client
        self.key = key

    async def get(self) -> Object:
        return await self.client.get(PODS.as_json, self.key)

    async def ready(self) -> bool:
        return condition(await self.get(), "Ready") == "True"

    async def unready(self) -> bool:
        return condition(await self.get(), "Ready") == "False"

    async def gone(self) -> bool:
        with contextlib.suppress(errors.NotFound):
            await self.get()
            return False
        return True

    async def waiting(self) -> str:
        statuses = (await self.get())["status"].get("containerStatuses") or [{"state": {}}]
        return str(statuses[0]["state"].get("waiting", {}).get("reason", ""))


async def create(client: Client, wanted: Object) -> Pods:
    made = await client.create(PODS.as_json, wanted)
    return Pods(client, f"{made['metadata']['namespace']}/{made['metadata']['name']}")


async def test_a_deployment_rolls_out_on_fake_nodes(
    client: Client, control_plane: ControlPlane, namespace: str, start_kubelet: Any
) -> None:
    kubelet = await start_kubelet({"pods": [{"startup": "1s", "readiness": "1s"}]}, nodes=3)
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec(kubelet.name)}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    await client.create(DEPLOYMENTS, deployment)
    reported = await asyncio.to_thread(
        control_plane.kubectl, "-n", namespace, "rollout", "status", "deployment/web", "--timeout=60s"
    )
    assert "successfully rolled out" in reported
    pods = [held.whole() for held in kubelet.pods if held.key.startswith(f"{namespace}/")]
    assert {found["spec"]["nodeName"] for found in pods} <= set(kubelet.played)
    assert len({found["status"]["podIP"] for found in pods}) == 3


async def test_a_crash_loop_looks_like_one(
    client: Client, control_plane: ControlPlane, namespace: str, start_kubelet: Any, eventually: Eventually
) -> None:
    kubelet = await start_kubelet(
        {"pods": [{"startup": "0s", "run": {"lasts": "1s", "exitCode": 3}}]}, nodes=1
    )
    crashing = await create(client, pod(namespace, "crashing", kubelet.name))

    async def backs_off() -> bool:
        return await crashing.waiting() == "CrashLoopBackOff"

    await eventually(backs_off)
    shown = await asyncio.to_thread(control_plane.kubectl, "-n", namespace, "get", "pods", "--no-headers")
    assert re.match(r"crashing +0/1 +CrashLoopBackOff +1 \(\d+s ago\)", shown), shown
    status = (await crashing.get())["status"]["containerStatuses"][0]
    assert status["lastState"]["terminated"]["exitCode"] == 3
    assert status["state"]["waiting"]["message"].startswith(
        "back-off 10s restarting failed container=main pod="
    )


async def test_another_kubelet_goes_on_where_the_first_one_stopped(
    client: Client, namespace: str, start_kubelet: Any, eventually: Eventually
) -> None:
    crash_once = {"pods": [{"startup": "0s", "run": {"lasts": "1s", "exitCode": 1, "times": 1}}]}
    first = await start_kubelet(crash_once, nodes=1)
    crashing = await create(client, pod(namespace, "crashing", first.name))

    async def restarted() -> bool:
        statuses = (await crashing.get())["status"].get("containerStatuses") or [{"restartCount": 0}]
        return statuses[0]["restartCount"] == 1 and await crashing.ready()

    await eventually(restarted)
    second = await start_kubelet(crash_once, nodes=0, name=first.name)

    async def idle() -> bool:
        return second.idle

    await eventually(idle)
    assert second.done["update"] == 0, "all was as it should be"


async def test_an_image_that_is_not_there(
    client: Client, control_plane: ControlPlane, namespace: str, start_kubelet: Any, eventually: Eventually
) -> None:
    blocked = {"reason": "ErrImagePull", "heals": "6s"}
    rules = {"pods": [{"match": {"image": "*/missing:*"}, "startup": "0s", "blocked": blocked}]}
    kubelet = await start_kubelet(rules, nodes=1)
    missing = await create(client, pod(namespace, "missing", kubelet.name, image="shop/missing:1"))

    async def backs_off() -> bool:
        return await missing.waiting() == "ImagePullBackOff"

    await eventually(backs_off)
    shown = await asyncio.to_thread(control_plane.kubectl, "-n", namespace, "get", "pods", "--no-headers")
    assert re.match(r"missing +0/1 +(ImagePullBackOff|ErrImagePull) +0 ", shown), shown
    await eventually(missing.ready)


async def test_a_job_completes(
    client: Client, namespace: str, start_kubelet: Any, eventually: Eventually
) -> None:
    kubelet = await start_kubelet({"pods": [{"startup": "0s", "run": {"lasts": "1s"}}]}, nodes=1)
    spec = {"template": {"spec": pod_spec(kubelet.name, restartPolicy="Never")}, "completions": 2}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": namespace},
        "spec": spec,
    }
    await client.create(JOBS, job)

    async def complete() -> bool:
        return condition(await client.get(JOBS, f"{namespace}/j"), "Complete") == "True"

    await eventually(complete)


async def test_a_lost_node_is_noticed_and_welcomed_back(
    client: Client, namespace: str, start_kubelet: Any, eventually: Eventually
) -> None:
    kubelet = await start_kubelet({"pods": [{"startup": "0s"}]}, nodes=1)
    node = f"{kubelet.name}-0001"
    web = await create(client, pod(namespace, "web", kubelet.name))
    await eventually(web.ready)
    kubelet.kill(node)

    async def unreachable() -> bool:
        found = await client.get(NODES.as_json, node)
        taints = {taint["key"] for taint in found["spec"].get("taints") or ()}
        return condition(found, "Ready") == "Unknown" and "node.kubernetes.io/unreachable" in taints

    await eventually(unreachable)
    await eventually(web.unready)
    await client.delete(PODS, web.key, grace_s=1)
    lost = await create(client, pod(namespace, "lost", kubelet.name, nodeName=node))

    async def reachable() -> bool:
        found = await client.get(NODES.as_json, node)
        return is_ready(found) and not found["spec"].get("taints")

    assert not await web.gone(), "a dead kubelet finishes no termination"
    assert (await lost.get())["status"]["phase"] == "Pending", "and starts nothing"
    kubelet.revive(node)
    await eventually(reachable)
    await eventually(web.gone)
    await eventually(lost.ready)


async def test_a_pod_that_ignores_sigterm_lives_its_whole_grace_period(
    client: Client, namespace: str, start_kubelet: Any, eventually: Eventually
) -> None:
    rules = [
        {"match": {"labels": {"app": "deaf"}}, "termination": "ignored"},
        {"startup": "0s", "termination": "0s"},
    ]
    kubelet = await start_kubelet({"pods": rules}, nodes=1)
    deaf = await create(client, pod(namespace, "deaf", kubelet.name))
    polite = await create(client, pod(namespace, "polite", kubelet.name))
    await eventually(deaf.ready)
    await eventually(polite.ready)
    for asked in (deaf, polite):
        await client.delete(PODS, asked.key, grace_s=6)
    began = datetime.now(UTC)
    await eventually(polite.gone)
    assert not await deaf.gone()
    await eventually(deaf.gone)
    assert (datetime.now(UTC) - began).total_seconds() > 4.5


async def test_readiness_gates_are_for_others_to_open(
    client: Client, control_plane: ControlPlane, namespace: str, start_kubelet: Any, eventually: Eventually
) -> None:
    kubelet = await start_kubelet({"pods": [{"startup": "0s"}]}, nodes=1)
    gate = {"conditionType": "example.com/lb"}
    gated = await create(client, pod(namespace, "gated", kubelet.name, readinessGates=[gate]))

    async def containers_ready() -> bool:
        return condition(await gated.get(), "ContainersReady") == "True"

    await eventually(containers_ready)
    assert not await gated.ready()
    patch = '{"status":{"conditions":[{"type":"example.com/lb","status":"True"}]}}'
    await asyncio.to_thread(
        control_plane.kubectl, "-n", namespace, "patch", "pod", "gated", "--subresource=status", "-p", patch
    )
    await eventually(gated.ready)
