"""Requests that no well-behaved client sends."""

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import CONFIG_MAPS
from tests.conformance.cluster_under_test import ClusterUnderTest
from tests.conformance.objects import config_map
from tests.conformance.scenario import scenario


async def _answered(cluster: ClusterUnderTest, method: str, path: str, **asked: object) -> None:
    answer = await cluster.asked("", method, path, **asked)  # type: ignore[arg-type]
    reported = answer.json if isinstance(answer.json, dict) else {}
    cluster.saw(f"{method} {path}", [answer.code, reported.get("reason"), reported.get("message")])


@scenario("missing objects are not found, with a message per kind")
async def not_found(cluster: ClusterUnderTest) -> None:
    for path in (
        f"/api/v1/namespaces/{cluster.namespace}/configmaps/nobody",
        f"/apis/apps/v1/namespaces/{cluster.namespace}/deployments/nobody",
        f"/api/v1/namespaces/{cluster.namespace}/frobs",
        "/api/v1/frobs",
        "/apis/frob.example.com/v1/frobs",
        "/apis/apps/v9/deployments",
        "/api/v1/nodes/nobody",
        "/api/v1/namespaces/nobody",
    ):
        await _answered(cluster, "GET", path)
    for path in ("/frob", "/api/v9"):
        answer = await cluster.asked("", "GET", path)
        cluster.saw(path, answer.code)


@scenario("unsupported methods are not allowed")
async def not_allowed(cluster: ClusterUnderTest) -> None:
    await cluster.create(CONFIG_MAPS, config_map("one"))
    collection, one = (
        CONFIG_MAPS.collection_path(cluster.namespace),
        CONFIG_MAPS.object_path(cluster.namespace, "one"),
    )
    await _answered(cluster, "PUT", collection, body={})
    await _answered(cluster, "PATCH", collection, body={}, content_type="application/merge-patch+json")
    await _answered(cluster, "POST", one, body=cluster.placed(CONFIG_MAPS, config_map("one")))
    await _answered(cluster, "POST", PODS.collection_path(), body={})
    await _answered(cluster, "DELETE", CONFIG_MAPS.collection_path())


@scenario("only content types that the server can write are acceptable")
async def not_acceptable(cluster: ClusterUnderTest) -> None:
    path = CONFIG_MAPS.collection_path(cluster.namespace)
    for accept in (
        "text/html",
        "application/json;as=Frob;g=meta.k8s.io;v=v1",
        "*/*",
        "application/*",
        "application/yaml",
        "application/json, */*",
        "application/frob, application/json",
    ):
        answer = await cluster.asked("", "GET", path, accept=accept)
        cluster.saw(accept, [answer.code, answer.headers["content-type"]])


@scenario("only content types that the server can read are supported")
async def unsupported(cluster: ClusterUnderTest) -> None:
    path = CONFIG_MAPS.collection_path(cluster.namespace)
    body = cluster.placed(CONFIG_MAPS, config_map("one"))
    for content_type in ("text/plain", "application/xml"):
        await cluster.asked(content_type, "POST", path, body=body, content_type=content_type)
    yaml = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yaml\ndata:\n  a: '1'\n"
    answer = await cluster.asked("yaml", "POST", path, body=yaml, content_type="application/yaml")
    cluster.saw("yaml", [answer.code, answer.json["data"]])
    answer = await cluster.asked(
        "charset", "POST", path, body=body, content_type="application/json; charset=utf-8"
    )
    cluster.saw("charset", answer.code)


@scenario("an update must be of the object that the path names")
async def other_names(cluster: ClusterUnderTest) -> None:
    await cluster.create(CONFIG_MAPS, config_map("one"))
    path = CONFIG_MAPS.object_path(cluster.namespace, "one")
    other = cluster.placed(CONFIG_MAPS, config_map("other"))
    await _answered(cluster, "PUT", path, body=other)
    nameless = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": cluster.namespace}}
    await _answered(cluster, "PUT", path, body=nameless)
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"}}
    await _answered(cluster, "PUT", path, body=foreign)


@scenario("a deletion is answered with the object while it lasts, else with success; its options are checked")
async def deletions(cluster: ClusterUnderTest) -> None:
    for name in ("one", "two", "three", "four"):
        await cluster.create(CONFIG_MAPS, config_map(name))
    answer = await cluster.asked("", "DELETE", CONFIG_MAPS.object_path(cluster.namespace, "one"))
    cluster.saw("gone", answer.json)
    await cluster.create(CONFIG_MAPS, config_map("held", finalizers=["example.com/hold"]))
    answer = await cluster.asked("", "DELETE", CONFIG_MAPS.object_path(cluster.namespace, "held"))
    cluster.saw("held", [answer.code, answer.json["kind"], answer.json.get("metadata", {}).get("name")])
    path = CONFIG_MAPS.object_path(cluster.namespace, "two")
    await cluster.asked("a policy", "DELETE", path, body={"propagationPolicy": "Wild"})
    both = {"orphanDependents": True, "propagationPolicy": "Orphan"}
    await cluster.asked("two policies", "DELETE", path, body=both)
    await cluster.asked("a negative grace", "DELETE", path, body={"gracePeriodSeconds": -1})
    query = {"propagationPolicy": "Background", "gracePeriodSeconds": "0"}
    answer = await cluster.asked(
        "", "DELETE", CONFIG_MAPS.object_path(cluster.namespace, "three"), query=query
    )
    cluster.saw("by query", answer.code)
    release = {"metadata": {"finalizers": None}}
    held = CONFIG_MAPS.object_path(cluster.namespace, "held")
    await cluster.asked("", "PATCH", held, body=release, content_type="application/merge-patch+json")


@scenario("the server reports its version and its health")
async def about(cluster: ClusterUnderTest) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        answer = await cluster.asked("", "GET", path)
        cluster.saw(path, [answer.code, answer.body.decode()])
    answer = await cluster.asked("", "GET", "/version")
    cluster.saw("version", sorted(answer.json))
    answer = await cluster.asked("", "GET", "/api")
    cluster.saw("/api", [answer.json["kind"], answer.json["versions"]])
    answer = await cluster.asked("", "GET", NODES.object_path("", "nobody").rpartition("/nodes")[0])
    kinds = {each["name"]: each for each in answer.json["resources"]}
    for name in ("pods", "pods/eviction", "pods/binding", "nodes", "namespaces", "pods/status"):
        reported = {key: value for key, value in kinds[name].items() if key != "storageVersionHash"}
        cluster.saw(name, reported)
