"""Validating webhooks: those that see what will be stored, and those that see deletions."""

import asyncio
from functools import partial

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import MUTATING_WEBHOOKS, Object, merge_patch
from tests.conformance.cluster_under_test import WHOLE, ClusterUnderTest
from tests.conformance.objects import pod
from tests.conformance.scenario import scenario
from tests.conformance.webhook import (
    PODS_ONLY,
    VALIDATING_WEBHOOKS,
    Answer,
    allowed,
    configure,
    webhook,
)

with_webhook = partial(scenario, sockets=True)


def _answering(answer: Object) -> Answer:
    async def answer_with(_: Object) -> Object:
        return answer

    return answer_with


NO = {"allowed": False, "status": {"message": "not today"}}


@with_webhook("a validating webhook sees the mutated object, and refuses with its own message")
async def mutated(cluster: ClusterUnderTest) -> None:
    label = {"op": "add", "path": "/metadata/labels", "value": {"hooked": "yes"}}
    async with webhook() as hook:
        change = hook.client_config("/change", _answering(allowed(label)))
        await configure(cluster, hook, {"name": "change.example.com", "clientConfig": change}, name="change")
        judge = hook.client_config("/judge", _answering(NO))
        wanted = {"name": "judge.example.com", "clientConfig": judge}
        wanted["objectSelector"] = {"matchLabels": {"hooked": "yes"}}
        await configure(cluster, hook, wanted, name="judge", resource=VALIDATING_WEBHOOKS)
        await cluster.created("a pod", PODS, pod("one"))
        (request,) = [request for path, request in hook.asked if path == "/judge"]
        cluster.saw("what it saw", request["object"]["metadata"].get("labels"))
        cluster.saw("the pod", await cluster.read(PODS, "one"))
        broken = pod("two")
        broken["spec"]["containers"] = []
        await cluster.created("an invalid pod", PODS, broken)
        cluster.saw("asked", [path for path, _ in hook.asked if path == "/judge"])


@with_webhook("a validating webhook may warn, but a response with a patch counts as a failure")
async def no_change(cluster: ClusterUnderTest) -> None:
    label = {"op": "add", "path": "/metadata/labels", "value": {"hooked": "yes"}}
    async with webhook() as hook:
        warns = hook.client_config("/warn", _answering(allowed(warnings=["mind the gap"])))
        changes = hook.client_config("/change", _answering(allowed(label)))
        await configure(
            cluster,
            hook,
            {"name": "warn.example.com", "clientConfig": warns},
            {
                "name": "change.example.com",
                "clientConfig": changes,
                "objectSelector": {"matchLabels": {"change": "it"}},
            },
            resource=VALIDATING_WEBHOOKS,
        )
        placed = cluster.placed(PODS, pod("one"))
        answer = await cluster.asked("", "POST", PODS.collection_path(cluster.namespace), body=placed)
        cluster.saw("warned", [answer.code, answer.headers.get("warning")])
        await cluster.created("changed", PODS, pod("two", labels={"change": "it"}))


@with_webhook("a validating webhook that does not answer fails the request, unless failures are ignored")
async def unreachable(cluster: ClusterUnderTest) -> None:
    async with webhook() as hook:
        nowhere = {"url": "https://127.0.0.1:1/"}
        must = {"name": "must.example.com", "clientConfig": nowhere}
        must["objectSelector"] = {"matchLabels": {"must": "yes"}}
        may = {"name": "may.example.com", "clientConfig": nowhere, "failurePolicy": "Ignore"}
        await configure(cluster, hook, must, may, resource=VALIDATING_WEBHOOKS)
        await cluster.created("must answer", PODS, pod("one", labels={"must": "yes"}))
        await cluster.created("may answer", PODS, pod("two"))


@with_webhook("deletions are sent to webhooks of both types, with the old object, and can be refused")
async def deletions(cluster: ClusterUnderTest) -> None:
    rules = [{**PODS_ONLY[0], "operations": ["DELETE"]}]
    async with webhook() as hook:
        for sort, resource in (("change", MUTATING_WEBHOOKS), ("judge", VALIDATING_WEBHOOKS)):
            config = hook.client_config(f"/{sort}", _answering(allowed() if sort == "change" else NO))
            wanted = {"name": f"{sort}.example.com", "clientConfig": config, "rules": rules}
            await configure(cluster, hook, wanted, name=sort, resource=resource)
        await cluster.create(PODS, pod("one", labels={"app": "web"}))
        await cluster.tried("deletion", cluster.client.delete(PODS, cluster.key("one")))
        requests = dict(hook.asked)
        cluster.saw("asked", sorted(path for path in requests if not path.startswith("/probe")))
        shown = dict(requests["/judge"])
        old = shown.pop("oldObject")
        cluster.saw("the request", {**shown, "userInfo": None, "options": None})
        cluster.saw("the object that goes", [old["metadata"]["name"], old["metadata"]["labels"]])
        no_webhooks = merge_patch({"webhooks": []})
        await cluster.client.patch(VALIDATING_WEBHOOKS, cluster.unique("judge"), no_webhooks)
        for _ in range(100):
            if await _deleted(cluster):
                break
            await asyncio.sleep(0.05)
        cluster.saw("afterwards", await cluster.read(PODS, "one"))


async def _deleted(cluster: ClusterUnderTest) -> bool:
    answer = await cluster.asked("", "DELETE", PODS.object_path(cluster.namespace, "one"))
    return answer.code == 200


@with_webhook("a validating webhook configuration gets its defaults")
async def configuration(cluster: ClusterUnderTest) -> None:
    hook = {
        "name": "judge.example.com",
        "clientConfig": {"service": {"namespace": "default", "name": "judge"}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "rules": [{**PODS_ONLY[0], "resources": ["nothings"]}],
    }
    item = {"metadata": {"name": cluster.unique("judge")}, "webhooks": [hook]}
    await cluster.created("whole", VALIDATING_WEBHOOKS, item, WHOLE)
    await cluster.created("without anything", VALIDATING_WEBHOOKS, {
        "metadata": {"name": cluster.unique("other")}, "webhooks": [{"name": "x"}]
    })  # fmt: skip
