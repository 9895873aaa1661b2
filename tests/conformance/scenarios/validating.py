"""What is refused, and which field is named."""

from typing import Any

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import (
    CONFIG_MAPS,
    CRON_JOBS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    LEASES,
    MUTATING_WEBHOOKS,
    POD_DISRUPTION_BUDGETS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    SECRETS,
    STATEFUL_SETS,
    ApiResource,
    Object,
    merge_patch,
)
from tests.conformance.cluster_under_test import ClusterUnderTest
from tests.conformance.objects import budget, config_map, deployment, node, pod, replica_set, template
from tests.conformance.scenario import scenario
from tests.stories.objects import SERVICES


async def _refused(cluster: ClusterUnderTest, resource: ApiResource[Any], items: dict[str, Object]) -> None:
    for what, item in items.items():
        await cluster.created(what, resource, item)


@scenario("names must be DNS names, of the length their kind allows")
async def names(cluster: ClusterUnderTest) -> None:
    bad_names = ("Upper", "under_score", "-dash", "dash-", "dot..dot", "a/b", "x" * 254, "%41", ".")
    for name in bad_names:
        await cluster.created(name[:12], CONFIG_MAPS, config_map(name))
    await cluster.created(
        "dots in a service's", SERVICES, {"metadata": {"name": "a.b"}, "spec": {"ports": [{"port": 1}]}}
    )
    await cluster.created("dots in a deployment's", DEPLOYMENTS, deployment("a.b"))
    await cluster.created("a bad node's", NODES, node("Upper_Case"))


@scenario("labels, annotations, finalizers and owners have rules of their own")
async def metadata(cluster: ClusterUnderTest) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1"}
    cases: dict[str, Any] = {
        "a label's value": {"labels": {"a": "b c"}},
        "a long value": {"labels": {"a": "x" * 64}},
        "a label's key": {"labels": {"a b": "c"}},
        "a key's prefix": {"labels": {"Exa_mple/a": "c"}},
        "two slashes": {"labels": {"a/b/c": "d"}},
        "an annotation's key": {"annotations": {"a b": "c"}},
        "large annotations": {"annotations": {"a": "x" * (256 * 1024)}},
        "a finalizer without domain": {"finalizers": ["hold"]},
        "a finalizer": {"finalizers": ["not a name"]},
        "an owner without uid": {"ownerReferences": [{**owner, "uid": ""}]},
        "an owner without name": {"ownerReferences": [{**owner, "name": ""}]},
        "an owner without kind": {"ownerReferences": [{**owner, "kind": ""}]},
    }
    await _refused(cluster, CONFIG_MAPS, {what: config_map("x", **case) for what, case in cases.items()})


@scenario("a workload's selector must match its template, and stays as it is")
async def selectors(cluster: ClusterUnderTest) -> None:
    other = {"selector": {"matchLabels": {"app": "other"}}}
    await cluster.created("another selector", DEPLOYMENTS, deployment("x", **other))
    await cluster.created("no selector", DEPLOYMENTS, deployment("x", selector=None))
    await cluster.created("an empty selector", DEPLOYMENTS, deployment("x", selector={}))
    await cluster.create(DEPLOYMENTS, deployment("web"))
    await cluster.create(REPLICA_SETS, replica_set("web"))
    labels = {"app": "web", "more": "x"}
    change = {"spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}}
    for resource in (DEPLOYMENTS, REPLICA_SETS):
        await cluster.patched(f"{resource.plural}: changed", resource, "web", merge_patch(change))


@scenario("a deployment's numbers are checked")
async def deployments(cluster: ClusterUnderTest) -> None:
    def rolling(**settings: object) -> Object:
        return {"strategy": {"type": "RollingUpdate", "rollingUpdate": settings}}

    cases: dict[str, Object] = {
        "both zero": rolling(maxSurge=0, maxUnavailable=0),
        "negative": rolling(maxSurge=-1),
        "no percentage": rolling(maxUnavailable="half"),
        "more than all": rolling(maxUnavailable="101%"),
        "a strategy": {"strategy": {"type": "Wild"}},
        "recreate with numbers": {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
        "progress within readiness": {"minReadySeconds": 10, "progressDeadlineSeconds": 5},
        "a negative history": {"revisionHistoryLimit": -1},
        "restart policy": {"template": {"metadata": {"labels": {"app": "x"}},
                                        "spec": {**pod("x")["spec"], "restartPolicy": "Never"}}},
    }  # fmt: skip
    for what, spec in cases.items():
        await cluster.created(what, DEPLOYMENTS, deployment("x", **spec))


@scenario("other workloads have their own rules")
async def other_workloads(cluster: ClusterUnderTest) -> None:
    plain: Object = {"selector": {"matchLabels": {"app": "web"}}, "template": template("web")}
    stateful = {"metadata": {"name": "web"}, "spec": {**plain, "replicas": 0, "serviceName": "web"}}
    await cluster.create(STATEFUL_SETS, stateful)
    await cluster.patched("a service name", STATEFUL_SETS, "web", merge_patch({"spec": {"serviceName": "b"}}))
    policy = {"metadata": {"name": "x"}, "spec": {**plain, "podManagementPolicy": "Wild"}}
    await cluster.created("a policy", STATEFUL_SETS, policy)
    daemon = {"metadata": {"name": "x"}, "spec": {**plain, "updateStrategy": {"type": "Wild"}}}
    await cluster.created("a daemon's strategy", DAEMON_SETS, daemon)
    always = {"metadata": {"name": "x"}, "spec": {"template": {"spec": pod("x")["spec"]}}}
    await cluster.created("a job that restarts always", JOBS, always)
    once = {"template": {"spec": {**pod("x")["spec"], "restartPolicy": "Never"}}}
    await cluster.created(
        "negative parallelism", JOBS, {"metadata": {"name": "x"}, "spec": {**once, "parallelism": -1}}
    )
    indexed = {"metadata": {"name": "x"}, "spec": {**once, "completionMode": "Indexed"}}
    await cluster.created("an index of nothing", JOBS, indexed)
    await cluster.create(JOBS, {"metadata": {"name": "once"}, "spec": once})
    image = {"containers": [{"name": "main", "image": "example.com/app:2"}]}
    await cluster.patched(
        "a job's template", JOBS, "once", merge_patch({"spec": {"template": {"spec": image}}})
    )
    for schedule in ("every day", "61 * * * *", "* * * *", "*/5 * * * *"):
        cron = {"metadata": {"name": "x"}, "spec": {"schedule": schedule, "jobTemplate": {"spec": once}}}
        await cluster.tried(
            schedule, cluster.client.create(CRON_JOBS, cluster.placed(CRON_JOBS, cron), dry_run=True)
        )


@scenario("a budget has a valid minAvailable or maxUnavailable, not both")
async def budgets(cluster: ClusterUnderTest) -> None:
    cases: dict[str, Object] = {
        "both": {"minAvailable": 1, "maxUnavailable": 1},
        "negative": {"minAvailable": -1},
        "more than all": {"maxUnavailable": "101%"},
        "no percentage": {"minAvailable": "some"},
        "a policy": {"minAvailable": 1, "unhealthyPodEvictionPolicy": "Wild"},
        "a selector": {"minAvailable": 1, "selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
    }
    for what, spec in cases.items():
        await cluster.created(what, POD_DISRUPTION_BUDGETS, budget("x", "web", **spec))
    await cluster.create(POD_DISRUPTION_BUDGETS, budget("web", "web", minAvailable=1))
    other = merge_patch({"spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "other"}}}})
    await cluster.patched("changed", POD_DISRUPTION_BUDGETS, "web", other, "spec", "metadata.generation")
    negative = merge_patch({"status": {"disruptionsAllowed": -1}})
    await cluster.patched("a status", POD_DISRUPTION_BUDGETS.status, "web", negative)


@scenario("services, secrets and leases have rules of their own")
async def small_things(cluster: ClusterUnderTest) -> None:
    await _refused(cluster, SERVICES, {
        "no ports": {"metadata": {"name": "x"}, "spec": {}},
        "two without name": {"metadata": {"name": "x"}, "spec": {"ports": [{"port": 1}, {"port": 2}]}},
        "a port": {"metadata": {"name": "x"}, "spec": {"ports": [{"port": 0}]}},
        "a type": {"metadata": {"name": "x"}, "spec": {"type": "Wild", "ports": [{"port": 1}]}},
        "an affinity": {"metadata": {"name": "x"}, "spec": {"ports": [{"port": 1}], "sessionAffinity": "W"}},
    })  # fmt: skip
    await cluster.create(
        SECRETS, {"metadata": {"name": "fixed"}, "immutable": True, "stringData": {"a": "b"}}
    )
    await cluster.patched("an immutable secret", SECRETS, "fixed", merge_patch({"stringData": {"a": "c"}}))
    await cluster.patched("mutable again", SECRETS, "fixed", merge_patch({"immutable": False}))
    await cluster.create(SECRETS, {"metadata": {"name": "typed"}, "type": "example.com/t"})
    await cluster.patched("a secret's type", SECRETS, "typed", merge_patch({"type": "example.com/u"}))
    await cluster.created("a key", CONFIG_MAPS, {"metadata": {"name": "x"}, "data": {"a b": "c"}})
    lease = {"metadata": {"name": "x"}, "spec": {"leaseDurationSeconds": 0}}
    await cluster.created("a lease of no time", LEASES, lease)
    await cluster.create(LEASES, {"metadata": {"name": "lock"}, "spec": {"holderIdentity": "me"}})
    unversioned = cluster.placed(LEASES, {"metadata": {"name": "lock"}, "spec": {"holderIdentity": "you"}})
    await cluster.tried("a lease without version", cluster.client.replace(LEASES, unversioned), "spec")


@scenario("priority classes keep their value; only one may be the default; system values are taken")
async def priority_classes(cluster: ClusterUnderTest) -> None:
    high = cluster.unique("high")
    await cluster.create(PRIORITY_CLASSES, {"metadata": {"name": high}, "value": 1000})
    await cluster.patched("another value", PRIORITY_CLASSES, high, merge_patch({"value": 1001}))
    await cluster.patched("a description", PRIORITY_CLASSES, high, merge_patch({"description": "x"}), "value")
    preempting = merge_patch({"preemptionPolicy": "Never"})
    await cluster.patched("another preemption policy", PRIORITY_CLASSES, high, preempting)
    await _refused(cluster, PRIORITY_CLASSES, {
        "too high": {"metadata": {"name": cluster.unique("x")}, "value": 1_000_000_001},
        "a system name": {"metadata": {"name": f"system-{cluster.namespace}"}, "value": 5},
        "a policy": {"metadata": {"name": cluster.unique("x")}, "value": 5, "preemptionPolicy": "Wild"},
    })  # fmt: skip


@scenario("a definition must have a structural schema, one stored version and a name that fits")
async def definitions(cluster: ClusterUnderTest) -> None:
    group = f"{cluster.namespace}.example.com"
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    }

    def definition(name: str = "widgets", versions: list[Object] | None = None, **spec: Any) -> Object:
        body = {"group": group, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}}
        return {
            "metadata": {"name": f"{name}.{group}"},
            "spec": {**body, "versions": versions or [version], **spec},
        }

    def schema(**properties: Object) -> list[Object]:
        return [{**version, "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}]

    await _refused(cluster, CUSTOM_RESOURCE_DEFINITIONS, {
        "another name": definition("gadgets"),
        "a scope": definition(scope="Everywhere"),
        "no stored version": definition(versions=[{**version, "storage": False}]),
        "two stored versions": definition(versions=[version, {**version, "name": "v2"}]),
        "no schema": definition(versions=[{**version, "schema": None}]),
        "no type": definition(versions=schema(spec={"properties": {"a": {"type": "string"}}})),
        "a default of another type": definition(versions=schema(a={"type": "string", "default": 3})),
        "scale without path": definition(versions=[{**version, "subresources": {"scale": {}}}]),
        "a version's name": definition(versions=[{**version, "name": "One"}]),
    })  # fmt: skip


@scenario("a webhook configuration is validated")
async def webhook_configurations(cluster: ClusterUnderTest) -> None:
    good: Object = {
        "name": "label.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "objectSelector": {"matchLabels": {"nobody": "has-this"}},
    }
    cases: dict[str, Object] = {
        "a name": {"name": "label"},
        "plain HTTP": {"clientConfig": {"url": "http://127.0.0.1:1/"}},
        "url and service": {
            "clientConfig": {"url": "https://a/", "service": {"namespace": "a", "name": "b"}}
        },
        "neither": {"clientConfig": {}},
        "no review version": {"admissionReviewVersions": []},
        "an unknown review version": {"admissionReviewVersions": ["v9"]},
        "side effects": {"sideEffects": "Some"},
        "a failure policy": {"failurePolicy": "Panic"},
        "too patient": {"timeoutSeconds": 31},
        "a match condition": {"matchConditions": [{"name": "x", "expression": "not an expression"}]},
    }
    for what, case in cases.items():
        item = {"metadata": {"name": cluster.unique("webhooks")}, "webhooks": [{**good, **case}]}
        if what == "a match condition":
            # Only the field: the words are the expression compiler's.
            answer = await cluster.asked(
                "", "POST", MUTATING_WEBHOOKS.collection_path(), body=cluster.placed(MUTATING_WEBHOOKS, item)
            )
            cluster.saw(what, [answer.code, answer.json["details"]["causes"][0]["field"]])
        else:
            await cluster.created(what, MUTATING_WEBHOOKS, item)


@scenario("JSON of the wrong shape is a bad request")
async def wrong_shapes(cluster: ClusterUnderTest) -> None:
    path = PODS.collection_path(cluster.namespace)
    cases: dict[str, Object] = {
        "a list as spec": {**pod("x"), "spec": []},
        "text as a number": pod("x", spec={"terminationGracePeriodSeconds": "soon"}),
        "a number as text": pod("x", spec={"nodeName": 7}),
        "text as a list": pod("x", spec={"tolerations": "all"}),
        "a fraction": pod("x", spec={"terminationGracePeriodSeconds": 1.5}),
    }
    for what, body in cases.items():
        await cluster.asked(what, "POST", path, body={"apiVersion": "v1", "kind": "Pod", **body})
    # Of these only the code: the words are the JSON reader's.
    unreadable: dict[str, object] = {
        "no JSON": b"{",
        "nothing": b"",
        "another kind": {**pod("x"), "kind": "Service", "apiVersion": "v1"},
        "another version": {**pod("x"), "kind": "Pod", "apiVersion": "v2"},
        "no kind": pod("x"),
        "a list": [],
    }
    for what, content in unreadable.items():
        answer = await cluster.asked("", "POST", path, body=content)
        cluster.saw(what, [answer.code, answer.json["reason"]] if answer.code >= 400 else answer.code)
