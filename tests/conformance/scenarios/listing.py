"""Lists: pages, resource versions, and consistent reads."""

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import CONFIG_MAPS, NAMESPACES
from tests.conformance.cluster_under_test import ClusterUnderTest, Seen
from tests.conformance.notes import at
from tests.conformance.objects import config_map, pod
from tests.conformance.scenario import scenario


async def _listed(cluster: ClusterUnderTest, what: str = "", **query: str) -> Seen:
    path = CONFIG_MAPS.collection_path(cluster.namespace)
    return await cluster.asked(what, "GET", path, query={"labelSelector": "mine=yes", **query})


def _names(answer: Seen) -> list[str]:
    return [item["metadata"]["name"] for item in answer.json["items"]]


async def _make(cluster: ClusterUnderTest, *names: str) -> None:
    for name in names:
        await cluster.create(CONFIG_MAPS, config_map(name, labels={"mine": "yes"}))


@scenario("a page has a continue token, and the remaining count if that is cheap to know")
async def pages(cluster: ClusterUnderTest) -> None:
    await _make(cluster, *(f"number-{number}" for number in range(5)))
    unselected = await cluster.asked(
        "", "GET", CONFIG_MAPS.collection_path(cluster.namespace),
        query={"limit": "2", "fieldSelector": "metadata.name!=kube-root-ca.crt"},
    )  # fmt: skip
    cluster.saw(
        "with a field selector", [_names(unselected), at(unselected.json, "metadata.remainingItemCount")]
    )
    first = await _listed(cluster, limit="2")
    cluster.saw("first", [_names(first), at(first.json, "metadata.remainingItemCount")])
    await _make(cluster, "number-00-late")
    second = await _listed(cluster, limit="2", **{"continue": at(first.json, "metadata.continue")})
    cluster.saw(
        "second",
        [
            _names(second),
            second.json["metadata"]["resourceVersion"] == first.json["metadata"]["resourceVersion"],
        ],
    )
    third = await _listed(cluster, limit="2", **{"continue": at(second.json, "metadata.continue")})
    cluster.saw("third", [_names(third), at(third.json, "metadata.continue")])
    answer = await _listed(cluster, limit="2", **{"continue": "nonsense"})
    cluster.saw("a token that is none", [answer.code, answer.json["reason"]])
    token = at(first.json, "metadata.continue")
    await _listed(cluster, "a token and a version", resourceVersion="1", **{"continue": token})


@scenario("without a selector a page has the remaining count")
async def remaining(cluster: ClusterUnderTest) -> None:
    for number in range(4):
        await cluster.create(PODS, pod(f"number-{number}"))
    answer = await cluster.asked("", "GET", PODS.collection_path(cluster.namespace), query={"limit": "3"})
    cluster.saw("left", at(answer.json, "metadata.remainingItemCount"))
    rest = await cluster.asked(
        "",
        "GET",
        PODS.collection_path(cluster.namespace),
        query={"limit": "3", "continue": at(answer.json, "metadata.continue")},
    )
    cluster.saw("rest", [len(rest.json["items"]), at(rest.json, "metadata.remainingItemCount")])
    none = await cluster.asked("", "GET", PODS.collection_path(cluster.namespace), query={"limit": "0"})
    cluster.saw("no limit", len(none.json["items"]))
    await cluster.asked(
        "a limit that is no number", "GET", PODS.collection_path(cluster.namespace), query={"limit": "x"}
    )


@scenario("a list of an exact version is the list of that moment")
async def exact(cluster: ClusterUnderTest) -> None:
    await _make(cluster, "one")
    version = (await _listed(cluster)).json["metadata"]["resourceVersion"]
    await _make(cluster, "two")
    then = await _listed(cluster, resourceVersion=version, resourceVersionMatch="Exact", limit="10")
    cluster.saw("then", [_names(then), at(then.json, "metadata.resourceVersion") == version])
    now = await _listed(cluster, resourceVersion=version, resourceVersionMatch="NotOlderThan")
    # Perhaps from the server's cache, which may lag behind: not older, but not always the newest.
    reported = now.json["metadata"]["resourceVersion"]
    cluster.saw("not older", [_names(now)[0], int(reported) >= int(version)])
    cluster.saw("newest", _names(await _listed(cluster)))


@scenario("invalid resource versions are refused")
async def nonsense(cluster: ClusterUnderTest) -> None:
    for what, query in {
        "Exact without version": {"resourceVersionMatch": "Exact"},
        "Exact of 0": {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
        "an unknown match": {"resourceVersion": "1", "resourceVersionMatch": "Perhaps"},
        "no number": {"resourceVersion": "x"},
        "initial events of a list": {"sendInitialEvents": "true"},
    }.items():
        await _listed(cluster, what, **query)


@scenario("items of built-in lists have no kind, the list has; metadata can be requested alone")
async def shapes(cluster: ClusterUnderTest) -> None:
    await _make(cluster, "one")
    answer = await _listed(cluster)
    cluster.saw("a list", {**answer.json, "items": [sorted(item) for item in answer.json["items"]]})
    bare = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    path = CONFIG_MAPS.collection_path(cluster.namespace)
    answer = await cluster.asked("", "GET", path, query={"labelSelector": "mine=yes"}, accept=bare)
    cluster.saw("metadata alone", answer.json)
    one = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    answer = await cluster.asked("", "GET", CONFIG_MAPS.object_path(cluster.namespace, "one"), accept=one)
    cluster.saw("of one", answer.json)


@scenario("pods can be chosen by node, phase and more; namespaces by phase")
async def fields(cluster: ClusterUnderTest) -> None:
    await cluster.create(PODS, pod("placed", node="worker"))
    await cluster.create(PODS, pod("free", spec={"restartPolicy": "Never", "schedulerName": "mine"}))
    for selector in (
        "spec.nodeName=worker",
        "spec.nodeName=",
        "spec.nodeName!=worker",
        "status.phase=Pending",
        "status.phase=Running",
        "spec.restartPolicy=Never,spec.schedulerName=mine",
        "metadata.name=free",
        f"metadata.namespace={cluster.namespace}",
        "spec.hostNetwork=false",
        "spec.serviceAccountName=",
    ):
        page = await cluster.client.list(PODS.as_json, namespace=cluster.namespace, fields=selector)
        cluster.saw(selector, sorted(item["metadata"]["name"] for item in page.items))
    listed = cluster.client.list(PODS.as_json, namespace=cluster.namespace, fields="spec.color=red")
    await cluster.tried("an unknown one", listed)
    page = await cluster.client.list(
        NAMESPACES, fields=f"status.phase=Active,metadata.name={cluster.namespace}"
    )
    cluster.saw("namespaces", [item["metadata"]["name"] for item in page.items])


@scenario("a collection is deleted by selector, and answered with what was there")
async def delete_collection(cluster: ClusterUnderTest) -> None:
    await _make(cluster, "one", "two")
    await cluster.create(CONFIG_MAPS, config_map("three"))
    path = CONFIG_MAPS.collection_path(cluster.namespace)
    answer = await cluster.asked("", "DELETE", path, query={"labelSelector": "mine=yes"})
    cluster.saw("answer", [answer.code, answer.json["kind"]])
    page = await cluster.client.list(CONFIG_MAPS, namespace=cluster.namespace)
    names = sorted(item["metadata"]["name"] for item in page.items)
    cluster.saw("left", [name for name in names if name != "kube-root-ca.crt"])
    await cluster.asked("of all namespaces", "DELETE", CONFIG_MAPS.collection_path())
    empty = await cluster.asked("", "DELETE", path, query={"labelSelector": "nobody=x"})
    cluster.saw("of nothing", [empty.code, empty.json["kind"]])
