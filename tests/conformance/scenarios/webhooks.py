"""Mutating webhooks: whom the server asks, and what it makes of the answers."""

import asyncio
from base64 import b64encode
from functools import partial

from kubesim.sockets.serving_certificate import make_serving_certificate
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import Object
from tests.conformance.objects import pod
from tests.conformance.scenario import scenario
from tests.conformance.webhook import Answer, Webhook, allowed, configure, webhook
from tests.conformance.world import World

with_webhook = partial(scenario, sockets=True)

OWNED_BY_REPLICA_SET = (
    "has(object.metadata.ownerReferences) && "
    "object.metadata.ownerReferences.exists(o, o.kind == 'ReplicaSet')"
)


def _labelling(label: str) -> Answer:
    """Adds the label; its value tells the labels that were there before."""

    async def answer(request: Object) -> Object:
        labels = request["object"]["metadata"].get("labels") or {}
        seen = "-".join(sorted(labels)) or "none"
        add: Object = {"op": "add", "path": "/metadata/labels", "value": {**labels, label: seen}}
        return allowed(add)

    return answer


def _asked(hook: Webhook) -> list[str]:
    """The paths that were asked, without the probes."""
    return [path for path, _ in hook.asked if not path.startswith("/probe-")]


@with_webhook("a webhook changes a pod before it is checked and stored, and is told all about it")
async def mutation(world: World) -> None:
    async with webhook() as hook:
        config = hook.client_config("/label", _labelling("hooked"))
        await configure(world, hook, {"name": "label.example.com", "clientConfig": config})
        await world.created("a pod", PODS, pod("one"), "metadata.labels", "spec.schedulerName")
        requests = [request for path, request in hook.asked if path == "/label"]
        request = dict(requests[0])
        item = request.pop("object")
        world.saw("the request", {**request, "userInfo": bool(request["userInfo"]["username"])})
        world.saw("the object in it", {**item, "spec": sorted(item["spec"])})
        world.saw("has its defaults", item["spec"].get("schedulerName"))


@with_webhook(
    "two webhooks are asked in the order of their configurations' names, each sees what came before"
)
async def order(world: World) -> None:
    async with webhook() as hook:
        for name in ("b", "a"):
            first = hook.client_config(f"/{name}1", _labelling(f"{name}1"))
            second = hook.client_config(f"/{name}2", _labelling(f"{name}2"))
            await configure(
                world,
                hook,
                {"name": f"first.{name}.example.com", "clientConfig": first},
                {"name": f"second.{name}.example.com", "clientConfig": second},
                name=name,
            )
        await world.created("a pod", PODS, pod("one"), "metadata.labels")
        world.saw("asked", _asked(hook))


@with_webhook("a webhook denies with its own words and code")
async def denial(world: World) -> None:
    async def no(_: Object) -> Object:
        return {"allowed": False, "status": {"message": "not today", "code": 418, "reason": "Because"}}

    async def silent_no(_: Object) -> Object:
        return {"allowed": False}

    async with webhook() as hook:
        config = hook.client_config("/no", no)
        loud = {"matchLabels": {"loud": "yes"}}
        await configure(
            world, hook,
            {"name": "deny.example.com", "clientConfig": config, "objectSelector": loud},
            {"name": "silent.example.com", "clientConfig": hook.client_config("/silent", silent_no),
             "failurePolicy": "Ignore"},
        )  # fmt: skip
        await world.created("denied", PODS, pod("one", labels={"loud": "yes"}))
        await world.created("denied in silence", PODS, pod("one"))
        world.saw("nothing was made", await world.read(PODS, "one"))


@with_webhook(
    "a webhook that does not answer in time, or can't be trusted, stops the request or is passed over"
)
async def failures(world: World) -> None:
    async def slow(_: Object) -> Object:
        await asyncio.sleep(1.5)
        return allowed()

    async with webhook() as hook:
        stranger = make_serving_certificate().authority
        untrusted = {"url": hook.url("/slow"), "caBundle": b64encode(stranger).decode()}
        config = hook.client_config("/slow", slow)

        def on(label: str, **webhook: object) -> Object:
            return {
                "name": f"{label}.example.com",
                "objectSelector": {"matchLabels": {"case": label}},
                **webhook,
            }

        await configure(
            world, hook,
            on("slow-fail", clientConfig=config, failurePolicy="Fail"),
            on("slow-ignore", clientConfig=config, failurePolicy="Ignore"),
            on("stranger-fail", clientConfig=untrusted, failurePolicy="Fail"),
            on("stranger-ignore", clientConfig=untrusted, failurePolicy="Ignore"),
            on("nobody-fail", clientConfig={"url": "https://127.0.0.1:1/"}, failurePolicy="Fail"),
            on("nobody-ignore", clientConfig={"url": "https://127.0.0.1:1/"}, failurePolicy="Ignore"),
        )  # fmt: skip
        for case in ("slow", "stranger", "nobody"):
            for policy in ("fail", "ignore"):
                name = f"{case}-{policy}"
                item = world.placed(PODS, pod(name, labels={"case": name}))
                answer = await world.asked("", "POST", PODS.collection_path(world.namespace), body=item)
                # How a connection failed, each program says in its own words.
                began = f'Internal error occurred: failed calling webhook "{name}.example.com": '
                told = answer.json.get("message", "").startswith(began)
                world.saw(name, [answer.code, answer.json.get("reason"), told])


@with_webhook("a webhook is asked only about what its selectors, rules and conditions choose")
async def choice(world: World) -> None:
    async with webhook() as hook:

        def each(name: str, **choice: object) -> Object:
            config = hook.client_config(f"/{name}", _labelling(name))
            return {"name": f"{name}.example.com", "clientConfig": config, **choice}

        rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
        await configure(
            world, hook,
            each("object", objectSelector={"matchLabels": {"app": "web"}}),
            each("other-object", objectSelector={"matchLabels": {"app": "other"}}),
            each("namespace"),
            each("other-namespace", namespaceSelector={"matchLabels": {"a": "b"}}),
            each("condition", matchConditions=[{"name": "c", "expression": "object.metadata.name == 'one'"}]),
            each("other-condition", matchConditions=[
                {"name": "c", "expression": "object.metadata.name.startsWith('two')"}]),
            each("request", matchConditions=[{"name": "c", "expression": "request.operation == 'CREATE'"}]),
            each("owner", matchConditions=[{"name": "c", "expression": OWNED_BY_REPLICA_SET}]),
            each("update", rules=[{**rule, "operations": ["UPDATE"]}]),
            each("all", rules=[{**rule, "operations": ["*"], "resources": ["*/*"], "apiGroups": ["*"],
                                "apiVersions": ["*"], "scope": "Namespaced"}]),
            each("deployments", rules=[{**rule, "operations": ["*"], "resources": ["deployments"]}]),
            each("cluster", rules=[{**rule, "operations": ["CREATE"], "scope": "Cluster"}]),
            each("namespaced", rules=[{**rule, "operations": ["CREATE"], "scope": "Namespaced"}]),
            each("status", rules=[{**rule, "operations": ["*"], "resources": ["pods/status"]}]),
        )  # fmt: skip
        hook.asked.clear()
        await world.create(PODS, pod("one", labels={"app": "web"}))
        world.saw("creation of one", _asked(hook))
        hook.asked.clear()
        await world.create(PODS, pod("two"))
        world.saw("creation of two", _asked(hook))


@with_webhook("a dry run asks no webhook that has side effects")
async def dry_run(world: World) -> None:
    async with webhook() as hook:
        for effects in ("None", "NoneOnDryRun"):
            config = hook.client_config(f"/{effects}", _labelling(effects))
            item = {"name": "label.example.com", "clientConfig": config, "sideEffects": effects}
            await configure(world, hook, item, name=effects.lower())
        placed = world.placed(PODS, pod("one"))
        await world.tried(
            "dry run", world.client.create(PODS.as_json, placed, dry_run=True), "metadata.labels"
        )
        told = [[request["dryRun"], request["options"]] for path, request in hook.asked if "None" in path]
        world.saw("told of it", told)


@with_webhook("an answer that makes no sense counts as a failure")
async def nonsense(world: World) -> None:
    async def bad_patch(_: Object) -> Object:
        return allowed({"op": "remove", "path": "/metadata/nothing"})

    async def no_patch_type(_: Object) -> Object:
        return {"allowed": True, "patch": b64encode(b"[]").decode()}

    async def other_uid(_: Object) -> Object:
        return {**allowed(), "uid": "another"}

    async def invalid(_: Object) -> Object:
        return allowed({"op": "add", "path": "/metadata/labels", "value": {"a": "b c"}})

    async with webhook() as hook:
        answers = {
            "bad-patch": bad_patch,
            "no-patch-type": no_patch_type,
            "other-uid": other_uid,
            "invalid": invalid,
        }
        await configure(
            world,
            hook,
            *(
                {
                    "name": f"{name}.example.com",
                    "clientConfig": hook.client_config(f"/{name}", answer),
                    "objectSelector": {"matchLabels": {"case": name}},
                }
                for name, answer in answers.items()
            ),
        )
        for name in answers:
            item = world.placed(PODS, pod(name, labels={"case": name}))
            answer = await world.asked("", "POST", PODS.collection_path(world.namespace), body=item)
            told = answer.json
            known = told["message"] if name == "invalid" else "its own words"
            world.saw(name, [answer.code, told.get("reason"), known])


@with_webhook("warnings of a webhook reach the client")
async def warnings(world: World) -> None:
    async def warned(_: Object) -> Object:
        return allowed(warnings=["mind the gap"])

    async with webhook() as hook:
        config = hook.client_config("/warn", warned)
        await configure(world, hook, {"name": "warn.example.com", "clientConfig": config})
        placed = world.placed(PODS, pod("one"))
        answer = await world.asked("", "POST", PODS.collection_path(world.namespace), body=placed)
        world.saw("warning", [answer.code, answer.headers.get("warning")])


@with_webhook("a webhook that wants a second look gets one when others changed the object after it")
async def reinvocation(world: World) -> None:
    async with webhook() as hook:
        first = hook.client_config("/first", _labelling("first"))
        second = hook.client_config("/second", _labelling("second"))
        await configure(
            world, hook,
            {"name": "first.example.com", "clientConfig": first, "reinvocationPolicy": "IfNeeded"},
            {"name": "second.example.com", "clientConfig": second},
        )  # fmt: skip
        await world.created("a pod", PODS, pod("one"), "metadata.labels")
        world.saw("asked", _asked(hook))
