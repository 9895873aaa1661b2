"""Requests that no client of good manners sends."""

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import CONFIG_MAPS
from tests.conformance.objects import config_map
from tests.conformance.scenario import scenario
from tests.conformance.world import World


async def _answered(world: World, method: str, path: str, **asked: object) -> None:
    answer = await world.asked("", method, path, **asked)  # type: ignore[arg-type]
    told = answer.json if isinstance(answer.json, dict) else {}
    world.saw(f"{method} {path}", [answer.code, told.get("reason"), told.get("message")])


@scenario("what is not there is not found, each in its own words")
async def not_found(world: World) -> None:
    for path in (
        f"/api/v1/namespaces/{world.namespace}/configmaps/nobody",
        f"/apis/apps/v1/namespaces/{world.namespace}/deployments/nobody",
        f"/api/v1/namespaces/{world.namespace}/frobs",
        "/api/v1/frobs",
        "/apis/frob.example.com/v1/frobs",
        "/apis/apps/v9/deployments",
        "/api/v1/nodes/nobody",
        "/api/v1/namespaces/nobody",
    ):
        await _answered(world, "GET", path)
    for path in ("/frob", "/api/v9"):
        answer = await world.asked("", "GET", path)
        world.saw(path, answer.code)


@scenario("methods that make no sense are not allowed")
async def not_allowed(world: World) -> None:
    await world.create(CONFIG_MAPS, config_map("one"))
    collection, one = (
        CONFIG_MAPS.collection_path(world.namespace),
        CONFIG_MAPS.object_path(world.namespace, "one"),
    )
    await _answered(world, "PUT", collection, body={})
    await _answered(world, "PATCH", collection, body={}, content_type="application/merge-patch+json")
    await _answered(world, "POST", one, body=world.placed(CONFIG_MAPS, config_map("one")))
    await _answered(world, "POST", PODS.collection_path(), body={})
    await _answered(world, "DELETE", CONFIG_MAPS.collection_path())


@scenario("only what the server can write is acceptable")
async def not_acceptable(world: World) -> None:
    path = CONFIG_MAPS.collection_path(world.namespace)
    for accept in (
        "text/html",
        "application/json;as=Frob;g=meta.k8s.io;v=v1",
        "*/*",
        "application/*",
        "application/yaml",
        "application/json, */*",
        "application/frob, application/json",
    ):
        answer = await world.asked("", "GET", path, accept=accept)
        world.saw(accept, [answer.code, answer.headers["content-type"]])


@scenario("only what the server can read is supported")
async def unsupported(world: World) -> None:
    path = CONFIG_MAPS.collection_path(world.namespace)
    body = world.placed(CONFIG_MAPS, config_map("one"))
    for content_type in ("text/plain", "application/xml"):
        await world.asked(content_type, "POST", path, body=body, content_type=content_type)
    yaml = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yaml\ndata:\n  a: '1'\n"
    answer = await world.asked("yaml", "POST", path, body=yaml, content_type="application/yaml")
    world.saw("yaml", [answer.code, answer.json["data"]])
    answer = await world.asked(
        "charset", "POST", path, body=body, content_type="application/json; charset=utf-8"
    )
    world.saw("charset", answer.code)


@scenario("an update must be of the object that the path names")
async def other_names(world: World) -> None:
    await world.create(CONFIG_MAPS, config_map("one"))
    path = CONFIG_MAPS.object_path(world.namespace, "one")
    other = world.placed(CONFIG_MAPS, config_map("other"))
    await _answered(world, "PUT", path, body=other)
    nameless = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": world.namespace}}
    await _answered(world, "PUT", path, body=nameless)
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"}}
    await _answered(world, "PUT", path, body=foreign)


@scenario("a deletion is answered with the object while it lasts, else with success; its options are checked")
async def deletions(world: World) -> None:
    for name in ("one", "two", "three", "four"):
        await world.create(CONFIG_MAPS, config_map(name))
    answer = await world.asked("", "DELETE", CONFIG_MAPS.object_path(world.namespace, "one"))
    world.saw("gone", answer.json)
    await world.create(CONFIG_MAPS, config_map("held", finalizers=["example.com/hold"]))
    answer = await world.asked("", "DELETE", CONFIG_MAPS.object_path(world.namespace, "held"))
    world.saw("held", [answer.code, answer.json["kind"], answer.json.get("metadata", {}).get("name")])
    path = CONFIG_MAPS.object_path(world.namespace, "two")
    await world.asked("a policy", "DELETE", path, body={"propagationPolicy": "Wild"})
    both = {"orphanDependents": True, "propagationPolicy": "Orphan"}
    await world.asked("two policies", "DELETE", path, body=both)
    await world.asked("a negative grace", "DELETE", path, body={"gracePeriodSeconds": -1})
    query = {"propagationPolicy": "Background", "gracePeriodSeconds": "0"}
    answer = await world.asked("", "DELETE", CONFIG_MAPS.object_path(world.namespace, "three"), query=query)
    world.saw("by query", answer.code)
    release = {"metadata": {"finalizers": None}}
    held = CONFIG_MAPS.object_path(world.namespace, "held")
    await world.asked("", "PATCH", held, body=release, content_type="application/merge-patch+json")


@scenario("the server says what it is and that it is well")
async def about(world: World) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        answer = await world.asked("", "GET", path)
        world.saw(path, [answer.code, answer.body.decode()])
    answer = await world.asked("", "GET", "/version")
    world.saw("version", sorted(answer.json))
    answer = await world.asked("", "GET", "/api")
    world.saw("/api", [answer.json["kind"], answer.json["versions"]])
    answer = await world.asked("", "GET", NODES.object_path("", "nobody").rpartition("/nodes")[0])
    kinds = {each["name"]: each for each in answer.json["resources"]}
    for name in ("pods", "pods/eviction", "pods/binding", "nodes", "namespaces", "pods/status"):
        told = {key: value for key, value in kinds[name].items() if key != "storageVersionHash"}
        world.saw(name, told)
