"""Webhooks that change nothing: those that judge what will be stored, and those that see deletions."""

import asyncio
from functools import partial

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import MUTATING_WEBHOOKS, Object, merge_patch
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
from tests.conformance.world import WHOLE, World

with_webhook = partial(scenario, sockets=True)


def _saying(answer: Object) -> Answer:
    async def say(_: Object) -> Object:
        return answer

    return say


NO = {"allowed": False, "status": {"message": "not today"}}


@with_webhook("a webhook that only judges sees the object as others left it, and refuses with its own words")
async def judged(world: World) -> None:
    label = {"op": "add", "path": "/metadata/labels", "value": {"hooked": "yes"}}
    async with webhook() as hook:
        change = hook.client_config("/change", _saying(allowed(label)))
        await configure(world, hook, {"name": "change.example.com", "clientConfig": change}, name="change")
        judge = hook.client_config("/judge", _saying(NO))
        wanted = {"name": "judge.example.com", "clientConfig": judge}
        wanted["objectSelector"] = {"matchLabels": {"hooked": "yes"}}
        await configure(world, hook, wanted, name="judge", resource=VALIDATING_WEBHOOKS)
        await world.created("a pod", PODS, pod("one"))
        (request,) = [request for path, request in hook.asked if path == "/judge"]
        world.saw("what it saw", request["object"]["metadata"].get("labels"))
        world.saw("the pod", await world.read(PODS, "one"))
        broken = pod("two")
        broken["spec"]["containers"] = []
        await world.created("an invalid pod", PODS, broken)
        world.saw("asked", [path for path, _ in hook.asked if path == "/judge"])


@with_webhook("a judging webhook may warn, but an attempt to change the object counts as no answer")
async def no_change(world: World) -> None:
    label = {"op": "add", "path": "/metadata/labels", "value": {"hooked": "yes"}}
    async with webhook() as hook:
        warns = hook.client_config("/warn", _saying(allowed(warnings=["mind the gap"])))
        changes = hook.client_config("/change", _saying(allowed(label)))
        await configure(
            world,
            hook,
            {"name": "warn.example.com", "clientConfig": warns},
            {
                "name": "change.example.com",
                "clientConfig": changes,
                "objectSelector": {"matchLabels": {"change": "it"}},
            },
            resource=VALIDATING_WEBHOOKS,
        )
        placed = world.placed(PODS, pod("one"))
        answer = await world.asked("", "POST", PODS.collection_path(world.namespace), body=placed)
        world.saw("warned", [answer.code, answer.headers.get("warning")])
        await world.created("changed", PODS, pod("two", labels={"change": "it"}))


@with_webhook("a judging webhook that does not answer stops the request, unless it may be ignored")
async def unreachable(world: World) -> None:
    async with webhook() as hook:
        nowhere = {"url": "https://127.0.0.1:1/"}
        must = {"name": "must.example.com", "clientConfig": nowhere}
        must["objectSelector"] = {"matchLabels": {"must": "yes"}}
        may = {"name": "may.example.com", "clientConfig": nowhere, "failurePolicy": "Ignore"}
        await configure(world, hook, must, may, resource=VALIDATING_WEBHOOKS)
        await world.created("must answer", PODS, pod("one", labels={"must": "yes"}))
        await world.created("may answer", PODS, pod("two"))


@with_webhook("deletions are shown to webhooks of both sorts, with the object that goes, and can be refused")
async def deletions(world: World) -> None:
    rules = [{**PODS_ONLY[0], "operations": ["DELETE"]}]
    async with webhook() as hook:
        for sort, resource in (("change", MUTATING_WEBHOOKS), ("judge", VALIDATING_WEBHOOKS)):
            config = hook.client_config(f"/{sort}", _saying(allowed() if sort == "change" else NO))
            wanted = {"name": f"{sort}.example.com", "clientConfig": config, "rules": rules}
            await configure(world, hook, wanted, name=sort, resource=resource)
        await world.create(PODS, pod("one", labels={"app": "web"}))
        await world.tried("deletion", world.client.delete(PODS, world.key("one")))
        requests = dict(hook.asked)
        world.saw("asked", sorted(path for path in requests if not path.startswith("/probe")))
        shown = dict(requests["/judge"])
        old = shown.pop("oldObject")
        world.saw("the request", {**shown, "userInfo": None, "options": None})
        world.saw("the object that goes", [old["metadata"]["name"], old["metadata"]["labels"]])
        nobody = merge_patch({"webhooks": []})
        await world.client.patch(VALIDATING_WEBHOOKS, world.unique("judge"), nobody)
        for _ in range(100):
            if await _deleted(world):
                break
            await asyncio.sleep(0.05)
        world.saw("afterwards", await world.read(PODS, "one"))


async def _deleted(world: World) -> bool:
    answer = await world.asked("", "DELETE", PODS.object_path(world.namespace, "one"))
    return answer.code == 200


@with_webhook("a configuration of judging webhooks gets what it does not say")
async def configuration(world: World) -> None:
    hook = {
        "name": "judge.example.com",
        "clientConfig": {"service": {"namespace": "default", "name": "judge"}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "rules": [{**PODS_ONLY[0], "resources": ["nothings"]}],
    }
    item = {"metadata": {"name": world.unique("judge")}, "webhooks": [hook]}
    await world.created("whole", VALIDATING_WEBHOOKS, item, WHOLE)
    await world.created("without anything", VALIDATING_WEBHOOKS, {
        "metadata": {"name": world.unique("other")}, "webhooks": [{"name": "x"}]
    })  # fmt: skip
