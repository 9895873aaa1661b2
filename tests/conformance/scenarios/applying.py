"""Server-side apply: who owns which field, and what follows from that."""

from typing import Any

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    ApiResource,
    Object,
    apply_patch,
    merge_patch,
)
from tests.conformance.cluster_under_test import ClusterUnderTest
from tests.conformance.notes import at
from tests.conformance.objects import config_map, deployment, pod
from tests.conformance.scenario import scenario


async def _applied(
    cluster: ClusterUnderTest,
    what: str,
    resource: ApiResource[Any],
    item: Object,
    *fields: str,
    manager: str = "one",
    force: bool = False,
) -> Any:
    patch = apply_patch(cluster.placed(resource, item), field_manager=manager, force=force)
    return await cluster.patched(what, resource, item["metadata"]["name"], patch, *fields)


def _settings(**data: str) -> Object:
    return {"metadata": {"name": "settings"}, "data": data}


@scenario("an apply creates the object if it is not there, and then sets and drops fields")
async def lifecycle(cluster: ClusterUnderTest) -> None:
    first = await _applied(cluster, "the first", CONFIG_MAPS, _settings(a="1", b="2"), "data")
    managers = at(first, "metadata.managedFields") or []
    cluster.saw("managers", [[entry["manager"], entry["operation"]] for entry in managers])
    same = await _applied(cluster, "the same", CONFIG_MAPS, _settings(a="1", b="2"), "data")
    cluster.saw("same version", at(first, "metadata.resourceVersion") == at(same, "metadata.resourceVersion"))
    await _applied(cluster, "a change", CONFIG_MAPS, _settings(a="3", b="2"), "data")
    await _applied(cluster, "a field dropped", CONFIG_MAPS, _settings(a="3"), "data")


@scenario("a field of another manager conflicts; with force it changes its manager")
async def conflicts(cluster: ClusterUnderTest) -> None:
    await _applied(cluster, "one", CONFIG_MAPS, _settings(a="1", b="1"))
    await _applied(cluster, "two, the same value", CONFIG_MAPS, _settings(a="1"), "data", manager="two")
    await _applied(cluster, "two, other values", CONFIG_MAPS, _settings(a="2", b="2"), "data", manager="two")
    forced = _settings(a="2")
    await _applied(cluster, "two, forced", CONFIG_MAPS, forced, "data", manager="two", force=True)
    await _applied(cluster, "one, without the field", CONFIG_MAPS, _settings(b="1"), "data")
    await _applied(cluster, "two, dropping it", CONFIG_MAPS, _settings(), "data", manager="two")


@scenario("a field that was changed by a plain update belongs to the client that changed it")
async def after_an_update(cluster: ClusterUnderTest) -> None:
    await _applied(cluster, "one", CONFIG_MAPS, _settings(a="1", b="1"))
    await cluster.client.patch(CONFIG_MAPS, cluster.key("settings"), merge_patch({"data": {"a": "2"}}))
    await _applied(cluster, "one again", CONFIG_MAPS, _settings(a="1", b="1"), "data")
    left_out = _settings(b="1")
    await _applied(cluster, "one, without it", CONFIG_MAPS, left_out, "data")


@scenario("a field that two managers own stays when one of them drops it")
async def shared(cluster: ClusterUnderTest) -> None:
    await _applied(cluster, "one", CONFIG_MAPS, _settings(a="1", b="1"))
    await _applied(cluster, "two", CONFIG_MAPS, _settings(a="1"), manager="two")
    await _applied(cluster, "one lets go", CONFIG_MAPS, _settings(b="1"), "data")
    await _applied(cluster, "two lets go", CONFIG_MAPS, _settings(), "data", manager="two")


@scenario("containers of two managers are merged by name; conflicts name the field")
async def containers(cluster: ClusterUnderTest) -> None:
    await _applied(cluster, "one", DEPLOYMENTS, deployment("web"), "spec.replicas")
    side: Object = {"metadata": {"name": "web"}, "spec": {"template": {"spec": {"containers": [
        {"name": "side", "image": "example.com/side:1", "env": [{"name": "A", "value": "1"}]}
    ]}}}}  # fmt: skip
    names = ("spec.template.spec.containers.*.name", "spec.template.spec.containers.*.image")
    await _applied(cluster, "two adds one", DEPLOYMENTS, side, *names, manager="two")
    other = deployment("web")
    other["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/app:9"
    other["spec"]["replicas"] = 3
    await _applied(cluster, "three changes the first", DEPLOYMENTS, other, *names, manager="three")
    await _applied(cluster, "three by force", DEPLOYMENTS, other, *names, manager="three", force=True)
    empty = {"metadata": {"name": "web"}}
    await _applied(cluster, "two takes its own away", DEPLOYMENTS, empty, *names, manager="two")


@scenario("labels, annotations and finalizers are merged between managers")
async def metadata(cluster: ClusterUnderTest) -> None:
    for manager in ("one", "two"):
        item = config_map("settings", labels={manager: "x"}, finalizers=[f"example.com/{manager}"])
        del item["data"]
        fields = ("metadata.labels", "metadata.finalizers")
        await _applied(cluster, manager, CONFIG_MAPS, item, *fields, manager=manager)
    bare = {"metadata": {"name": "settings"}}
    await _applied(cluster, "one lets go", CONFIG_MAPS, bare, *fields)
    await _applied(cluster, "two lets go", CONFIG_MAPS, bare, *fields, manager="two")


@scenario("an apply to the status owns the status and leaves the rest alone")
async def status(cluster: ClusterUnderTest) -> None:
    await cluster.create(PODS, pod("one"))
    condition = {"type": "example.com/Fine", "status": "True"}
    item = {"metadata": {"name": "one"}, "status": {"conditions": [condition], "message": "hello"}}
    fields = ("status.message", "status.conditions")
    await _applied(cluster, "a condition", PODS.status, item, *fields)
    other = {
        "metadata": {"name": "one"},
        "status": {"conditions": [{**condition, "type": "example.com/More"}]},
    }
    await _applied(cluster, "another manager's", PODS.status, other, *fields, manager="two")
    await _applied(cluster, "to nobody", PODS.status, {"metadata": {"name": "nobody"}, "status": {}})


@scenario("an apply needs a manager and the object's own name, and may name a version")
async def demands(cluster: ClusterUnderTest) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("settings"))
    path = CONFIG_MAPS.object_path(cluster.namespace, "settings")
    applied = {"content_type": "application/apply-patch+yaml"}
    body = cluster.placed(CONFIG_MAPS, _settings(c="1"))
    await cluster.asked("without a manager", "PATCH", path, body=body, **applied)
    named = {"fieldManager": "one"}
    other = cluster.placed(CONFIG_MAPS, config_map("other"))
    await cluster.asked("another name", "PATCH", path, body=other, query=named, **applied)
    kindless = {"metadata": {"name": "settings"}, "data": {"c": "1"}}
    await cluster.asked("without a kind", "PATCH", path, body=kindless, query=named, **applied)
    managed = cluster.placed(
        CONFIG_MAPS, config_map("settings", managedFields=[{"manager": "one", "operation": "Apply"}])
    )
    await cluster.asked("with managed fields", "PATCH", path, body=managed, query=named, **applied)
    outdated = config_map("settings", a="1", resourceVersion="1")
    await _applied(cluster, "an outdated version", CONFIG_MAPS, outdated)
    current = config_map("settings", a="1", resourceVersion=made["metadata"]["resourceVersion"])
    await _applied(cluster, "the current version", CONFIG_MAPS, current, "data")
    future = config_map("new", a="1", resourceVersion="1")
    await _applied(cluster, "a version of nothing", CONFIG_MAPS, future)
    merge = {"content_type": "application/merge-patch+json"}
    query = named | {"force": "true"}
    await cluster.asked("force without apply", "PATCH", path, body={"data": {}}, query=query, **merge)


@scenario("ports, variables, volumes and tolerations are applied as their lists are made")
async def lists(cluster: ClusterUnderTest) -> None:
    def web(manager: str, **spec: Any) -> Object:
        container: Object = {"name": "main", **spec.pop("container", {})}
        if manager == "one":
            container["image"] = "example.com/app:1"
        return {
            "metadata": {"name": "web"},
            "spec": {
                **(
                    {k: v for k, v in deployment("web")["spec"].items() if k != "template"}
                    if manager == "one"
                    else {}
                ),
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [container], **spec},
                },
            },
        }

    port = {"containerPort": 80, "name": "http"}
    first = web("one", container={"ports": [port], "env": [{"name": "A", "value": "1"}], "args": ["x"]},
                tolerations=[{"key": "a", "operator": "Exists"}],
                volumes=[{"name": "one", "emptyDir": {}}], nodeSelector={"a": "1"})  # fmt: skip
    second = web("two", container={"ports": [{"containerPort": 81, "protocol": "TCP"}],
                                   "env": [{"name": "B", "value": "2"}]},
                 volumes=[{"name": "two", "emptyDir": {}}], nodeSelector={"b": "2"})  # fmt: skip
    fields = [
        f"spec.template.spec.{field}"
        for field in ("containers.0.ports", "containers.0.env", "tolerations", "volumes", "nodeSelector")
    ]
    await _applied(cluster, "one", DEPLOYMENTS, first, *fields)
    await _applied(cluster, "two", DEPLOYMENTS, second, *fields, manager="two")
    third = web("two", container={"args": ["y"]}, tolerations=[{"key": "b", "operator": "Exists"}])
    await _applied(cluster, "atomic lists conflict", DEPLOYMENTS, third, *fields, manager="two")
    await _applied(cluster, "two again", DEPLOYMENTS, web("two"), *fields, manager="two")
    await _applied(cluster, "one less", DEPLOYMENTS, web("one"), *fields)
