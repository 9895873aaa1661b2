"""Mutating webhooks: which are called, and what the server does with their responses."""

import asyncio
from base64 import b64encode
from functools import partial

from kubesim.sockets.loopback_server import make_serving_certificate
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import Object
from tests.conformance.cluster_under_test import ClusterUnderTest
from tests.conformance.objects import pod
from tests.conformance.scenario import scenario
from tests.conformance.webhook import Answer, Webhook, allowed, configure, webhook

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


@with_webhook("a webhook changes a pod before it is validated and stored, and gets the whole request")
async def mutation(cluster: ClusterUnderTest) -> None:
    async with webhook() as hook:
        config = hook.client_config("/label", _labelling("hooked"))
        await configure(cluster, hook, {"name": "label.example.com", "clientConfig": config})
        await cluster.created("a pod", PODS, pod("one"), "metadata.labels", "spec.schedulerName")
        requests = [request for path, request in hook.asked if path == "/label"]
        request = dict(requests[0])
        item = request.pop("object")
        cluster.saw("the request", {**request, "userInfo": bool(request["userInfo"]["username"])})
        cluster.saw("the object in it", {**item, "spec": sorted(item["spec"])})
        cluster.saw("has its defaults", item["spec"].get("schedulerName"))


@with_webhook(
    "two webhooks are called in the order of their configurations' names; each sees earlier changes"
)
async def order(cluster: ClusterUnderTest) -> None:
    async with webhook() as hook:
        for name in ("b", "a"):
            first = hook.client_config(f"/{name}1", _labelling(f"{name}1"))
            second = hook.client_config(f"/{name}2", _labelling(f"{name}2"))
            await configure(
                cluster,
                hook,
                {"name": f"first.{name}.example.com", "clientConfig": first},
                {"name": f"second.{name}.example.com", "clientConfig": second},
                name=name,
            )
        await cluster.created("a pod", PODS, pod("one"), "metadata.labels")
        cluster.saw("asked", _asked(hook))


@with_webhook("a webhook denies with its own words and code")
async def denial(cluster: ClusterUnderTest) -> None:
    async def no(_: Object) -> Object:
        return {"allowed": False, "status": {"message": "not today", "code": 418, "reason": "Because"}}

    async def silent_no(_: Object) -> Object:
        return {"allowed": False}

    async with webhook() as hook:
        config = hook.client_config("/no", no)
        loud = {"matchLabels": {"loud": "yes"}}
        await configure(
            cluster, hook,
            {"name": "deny.example.com", "clientConfig": config, "objectSelector": loud},
            {"name": "silent.example.com", "clientConfig": hook.client_config("/silent", silent_no),
             "failurePolicy": "Ignore"},
        )  # fmt: skip
        await cluster.created("denied", PODS, pod("one", labels={"loud": "yes"}))
        await cluster.created("denied in silence", PODS, pod("one"))
        cluster.saw("nothing was made", await cluster.read(PODS, "one"))


@with_webhook("a webhook that times out, or has an untrusted certificate, fails the request or is ignored")
async def failures(cluster: ClusterUnderTest) -> None:
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
            cluster, hook,
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
                item = cluster.placed(PODS, pod(name, labels={"case": name}))
                answer = await cluster.asked("", "POST", PODS.collection_path(cluster.namespace), body=item)
                # How a connection failed, each program says in its own words.
                began = f'Internal error occurred: failed calling webhook "{name}.example.com": '
                reported = answer.json.get("message", "").startswith(began)
                cluster.saw(name, [answer.code, answer.json.get("reason"), reported])


@with_webhook("a webhook is called only for what its selectors, rules and conditions match")
async def choice(cluster: ClusterUnderTest) -> None:
    async with webhook() as hook:

        def each(name: str, **choice: object) -> Object:
            config = hook.client_config(f"/{name}", _labelling(name))
            return {"name": f"{name}.example.com", "clientConfig": config, **choice}

        rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
        await configure(
            cluster, hook,
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
        await cluster.create(PODS, pod("one", labels={"app": "web"}))
        cluster.saw("creation of one", _asked(hook))
        hook.asked.clear()
        await cluster.create(PODS, pod("two"))
        cluster.saw("creation of two", _asked(hook))


@with_webhook("a dry run calls no webhook that has side effects")
async def dry_run(cluster: ClusterUnderTest) -> None:
    async with webhook() as hook:
        for effects in ("None", "NoneOnDryRun"):
            config = hook.client_config(f"/{effects}", _labelling(effects))
            item = {"name": "label.example.com", "clientConfig": config, "sideEffects": effects}
            await configure(cluster, hook, item, name=effects.lower())
        placed = cluster.placed(PODS, pod("one"))
        await cluster.tried(
            "dry run", cluster.client.create(PODS.as_json, placed, dry_run=True), "metadata.labels"
        )
        reported = [[request["dryRun"], request["options"]] for path, request in hook.asked if "None" in path]
        cluster.saw("told of it", reported)


@with_webhook("an invalid response counts as a failure")
async def nonsense(cluster: ClusterUnderTest) -> None:
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
            cluster,
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
            item = cluster.placed(PODS, pod(name, labels={"case": name}))
            answer = await cluster.asked("", "POST", PODS.collection_path(cluster.namespace), body=item)
            reported = answer.json
            known = reported["message"] if name == "invalid" else "its own words"
            cluster.saw(name, [answer.code, reported.get("reason"), known])


@with_webhook("warnings of a webhook reach the client")
async def warnings(cluster: ClusterUnderTest) -> None:
    async def warned(_: Object) -> Object:
        return allowed(warnings=["mind the gap"])

    async with webhook() as hook:
        config = hook.client_config("/warn", warned)
        await configure(cluster, hook, {"name": "warn.example.com", "clientConfig": config})
        placed = cluster.placed(PODS, pod("one"))
        answer = await cluster.asked("", "POST", PODS.collection_path(cluster.namespace), body=placed)
        cluster.saw("warning", [answer.code, answer.headers.get("warning")])


@with_webhook("a webhook with reinvocationPolicy IfNeeded is called again when others changed the object")
async def reinvocation(cluster: ClusterUnderTest) -> None:
    async with webhook() as hook:
        first = hook.client_config("/first", _labelling("first"))
        second = hook.client_config("/second", _labelling("second"))
        await configure(
            cluster, hook,
            {"name": "first.example.com", "clientConfig": first, "reinvocationPolicy": "IfNeeded"},
            {"name": "second.example.com", "clientConfig": second},
        )  # fmt: skip
        await cluster.created("a pod", PODS, pod("one"), "metadata.labels")
        cluster.saw("asked", _asked(hook))
