"""`pods/ephemeralcontainers` and `pods/resize`: what may change of a pod's spec while it runs."""

from collections.abc import Callable

from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.exchange import Answer, Object, Question, answer_object, decode
from rescheduler.simulator.options import WriteOptions
from rescheduler.simulator.patching import Patch
from rescheduler.simulator.routing import Route
from rescheduler.simulator.verbs import body_object

__all__ = ["get", "patch_ephemeral", "patch_resources", "replace_ephemeral", "replace_resources"]

Transform = Callable[[Object | None], Object]


async def get(cluster: Cluster, question: Question, route: Route) -> Answer:  # noqa: ARG001 - one signature for all
    return _shown(route, cluster.expect(route.kind, route.namespace, route.name).raw)


async def replace_ephemeral(cluster: Cluster, question: Question, route: Route) -> Answer:
    content = body_object(question)
    return await _change(cluster, question, route, lambda _: content, _take_ephemeral)


async def patch_ephemeral(cluster: Cluster, question: Question, route: Route) -> Answer:
    return await _change(cluster, question, route, _patch(cluster, question, route), _take_ephemeral)


async def replace_resources(cluster: Cluster, question: Question, route: Route) -> Answer:
    content = body_object(question)
    return await _change(cluster, question, route, lambda _: content, _take_resources)


async def patch_resources(cluster: Cluster, question: Question, route: Route) -> Answer:
    return await _change(cluster, question, route, _patch(cluster, question, route), _take_resources)


def _patch(cluster: Cluster, question: Question, route: Route) -> Patch:
    options = WriteOptions.parse(question, kind="PatchOptions")
    return Patch(route.kind, route.name, question, options, cluster.clock.now())


async def _change(
    cluster: Cluster,
    question: Question,
    route: Route,
    transform: Transform,
    take: Callable[[Object, Object], Object],
) -> Answer:
    def only_that(live: Object | None) -> Object:
        assert live is not None
        wanted = transform(live)
        changed = {**live, "spec": take(live["spec"], wanted.get("spec") or {})}
        version = (wanted.get("metadata") or {}).get("resourceVersion")
        if version:
            changed["metadata"] = {**live["metadata"], "resourceVersion": version}
        return changed

    options = WriteOptions.parse(question, kind="UpdateOptions")
    raw, _ = await cluster.writer.change(
        route.kind, route.namespace, route.name, only_that, options, subresource=route.subresource
    )
    return _shown(route, raw)


def _take_ephemeral(spec: Object, wanted: Object) -> Object:
    return {**spec, "ephemeralContainers": wanted.get("ephemeralContainers") or []}


def _take_resources(spec: Object, wanted: Object) -> Object:
    asked = {
        container.get("name"): container.get("resources") for container in wanted.get("containers") or ()
    }
    containers = [
        {**container, "resources": asked[container["name"]]} if asked.get(container["name"]) else container
        for container in spec["containers"]
    ]
    return {**spec, "containers": containers}


def _shown(route: Route, raw: bytes) -> Answer:
    return answer_object(200, {"kind": route.kind.name, "apiVersion": route.kind.api_version, **decode(raw)})
