"""New pods avoid the nodes where other pods of their workload failed, by the record on the workload alone."""

import json
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from kubesim import ApiServer
from rescheduler.api.well_known_names import AVOIDED_NODES_ANNOTATION, FAILED_ATTEMPTS_ANNOTATION
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.pod_constraints import avoided_nodes
from rescheduler.kube.api_resources import (
    CRON_JOBS,
    DEPLOYMENTS,
    JOBS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    REPLICA_SETS,
    STATEFUL_SETS,
    ApiResource,
    merge_patch,
)
from rescheduler.kube.client import Client
from rescheduler.recovery.attempt_ledger import AttemptLedger, FailedAttempt, ReplicaLineage
from rescheduler.steering.failed_attempts_watch import MAX_TEXT_PER_NAMESPACE, FailedAttemptsWatch
from rescheduler.steering.intents import Intent
from rescheduler.steering.steering_service import SteeringService
from rescheduler.steering.webhook.webhook_configurations import UrlAddress, webhook_configurations
from tests.testbed.fake_kubelet.nodes import node_object, node_shapes
from tests.unit.steering.steered_migrations import Eventually

CONTAINERS = {"containers": [{"name": "main", "image": "web:1"}]}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": CONTAINERS}


class InProcess:
    def __init__(self, service: SteeringService) -> None:
        self._service = service

    async def call(self, _endpoint: Any, body: bytes, _timeout_s: float) -> bytes:
        return self._service.answer(body)


@pytest.fixture
async def nodes(server: ApiServer, client: Client) -> list[str]:
    shapes = list(node_shapes(3, "node"))
    for shape in shapes:
        item = node_object(shape, "node", server.clock.now())
        await client.create(NODES.as_json, item)
    return [shape.name for shape in shapes]


@pytest.fixture
async def service(
    server: ApiServer, client: Client, connect: Callable[[], Client], nodes: list[str]
) -> AsyncIterator[SteeringService]:
    await client.create(MUTATING_WEBHOOKS, webhook_configurations(UrlAddress("https://webhook.invalid"))[0])
    made = SteeringService(connect())
    server.cluster.admission.webhooks.caller = InProcess(made)
    async with made.running():
        await made.synced()
        yield made


async def workload(client: Client, resource: ApiResource[Any], name: str, above: Any = None) -> Any:
    never = {**TEMPLATE, "spec": {**CONTAINERS, "restartPolicy": "Never"}}
    specs: dict[str, Any] = {
        "CronJob": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": never}}},
        "Job": {"template": never},
    }
    usual = {"template": TEMPLATE, "selector": {"matchLabels": {"app": "web"}}}
    spec = specs.get(resource.kind, usual)
    metadata: Any = {"namespace": "shop", "name": name}
    if above is not None:
        metadata["ownerReferences"] = [reference(above)]
    item = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
    made = await client.create(resource, item)
    return {"apiVersion": resource.api_version, "kind": resource.kind, **made}


def reference(owner: Any) -> Any:
    named = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], **named, "controller": True}


async def has_failed(client: Client, resource: ApiResource[Any], item: Any, **failed: list[str]) -> None:
    """Record failed attempts on these nodes, by lineage."""
    lines = {
        name.replace("_", "-"): ReplicaLineage(
            tuple(FailedAttempt(1, node, f"{name}{node}") for node in nodes)
        )
        for name, nodes in failed.items()
    }
    await annotate(client, resource, item, AttemptLedger(lines).written(item["metadata"]["uid"]))


async def annotate(client: Client, resource: ApiResource[Any], item: Any, text: str | None) -> None:
    key = f"shop/{item['metadata']['name']}"
    await client.patch(
        resource, key, merge_patch({"metadata": {"annotations": {FAILED_ATTEMPTS_ANNOTATION: text}}})
    )


async def made_by(client: Client, owner: Any, name: str = "web-x", **marks: str) -> Any:
    """The pod as it would be created."""
    metadata = {
        "namespace": "shop",
        "name": name,
        "ownerReferences": [reference(owner)],
        "annotations": marks,
    }
    item = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": CONTAINERS}
    return await client.create(PODS.as_json, item, dry_run=True)


def kept_off(pod: Any) -> tuple[str, ...]:
    return avoided_nodes(pod["metadata"].get("annotations", {}))


async def test_pods_of_a_deployment_s_replica_sets_stay_away(
    client: Client, service: SteeringService, nodes: list[str], eventually: Eventually
) -> None:
    deployment = await workload(client, DEPLOYMENTS, "web")
    replica_set = await workload(client, REPLICA_SETS, "web-1", deployment)
    await has_failed(client, DEPLOYMENTS, deployment, line=[nodes[0]])

    async def is_reported() -> Any:
        pod = await made_by(client, replica_set, team="somebody")
        return pod if kept_off(pod) else None

    pod = await eventually(is_reported)
    assert kept_off(pod) == (nodes[0],)
    assert pod["metadata"]["annotations"]["team"] == "somebody", "what is there stays there"
    later = await workload(client, REPLICA_SETS, "web-2", deployment)

    async def is_advised_later() -> bool:
        return bool(kept_off(await made_by(client, later)))

    await eventually(is_advised_later)
    await annotate(client, DEPLOYMENTS, deployment, None)

    async def is_free() -> bool:
        return not kept_off(await made_by(client, replica_set)) and not kept_off(await made_by(client, later))

    await eventually(is_free)


async def test_pods_of_a_cron_job_s_jobs_stay_away(
    client: Client, service: SteeringService, nodes: list[str], eventually: Eventually
) -> None:
    cron_job = await workload(client, CRON_JOBS, "nightly")
    job = await workload(client, JOBS, "nightly-1", cron_job)
    await has_failed(client, CRON_JOBS, cron_job, line=nodes[:2])

    async def is_reported() -> bool:
        return kept_off(await made_by(client, job)) == tuple(nodes[:2])

    await eventually(is_reported)


async def test_a_stateful_set_s_pods_are_distinguished_by_name(
    client: Client, service: SteeringService, nodes: list[str], eventually: Eventually
) -> None:
    owner = await workload(client, STATEFUL_SETS, "db")
    await has_failed(client, STATEFUL_SETS, owner, db_0=[nodes[0]])

    async def is_reported() -> bool:
        return kept_off(await made_by(client, owner, "db-0")) == (nodes[0],)

    await eventually(is_reported)
    assert kept_off(await made_by(client, owner, "db-1")) == ()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="no JSON"),
        pytest.param('{"v":1,"lines":[]}', id="another form"),
        pytest.param('{"v":99,"of":"x","lines":{}}', id="of a version to come"),
        pytest.param(
            json.dumps({"v": 1, "of": "UID", "lines": {"a": {"tries": [{"node": "Not A Node"}]}}}),
            id="with a node that can't be one",
        ),
        pytest.param(
            json.dumps({"v": 1, "of": "another", "lines": {"a": {"tries": [{"node": "node-0001"}]}}}),
            id="of another object: copied along",
        ),
    ],
)
async def test_no_pod_is_refused_or_changed_because_of_a_record_that_says(
    client: Client, service: SteeringService, eventually: Eventually, text: str
) -> None:
    broken = await workload(client, STATEFUL_SETS, "db")
    await annotate(client, STATEFUL_SETS, broken, text.replace("UID", broken["metadata"]["uid"]))
    witness = await workload(client, STATEFUL_SETS, "witness")
    await has_failed(client, STATEFUL_SETS, witness, witness_0=["node-0001"])

    async def is_known() -> bool:
        return bool(kept_off(await made_by(client, witness, "witness-0")))

    await eventually(is_known)
    pod = await made_by(client, broken, "db-0")
    assert AVOIDED_NODES_ANNOTATION not in pod["metadata"].get("annotations", {})
    assert "affinity" not in pod["spec"]


async def test_where_no_other_node_is_open_none_is_avoided(
    client: Client, service: SteeringService, nodes: list[str], eventually: Eventually
) -> None:
    owner = await workload(client, STATEFUL_SETS, "db")
    await has_failed(client, STATEFUL_SETS, owner, db_0=nodes[:2])

    async def is_reported() -> bool:
        return kept_off(await made_by(client, owner, "db-0")) == tuple(nodes[:2])

    async def is_free() -> bool:
        return not kept_off(await made_by(client, owner, "db-0"))

    await eventually(is_reported)
    await client.patch(NODES, nodes[2], merge_patch({"spec": {"unschedulable": True}}))
    await eventually(is_free)
    await client.patch(NODES, nodes[2], merge_patch({"spec": {"unschedulable": None}}))
    await eventually(is_reported)


async def test_a_record_is_read_once_for_all_replica_sets_below(
    client: Client, connect: Callable[[], Client], nodes: list[str], eventually: Eventually
):
    """Tenants write the record, and as many ReplicaSets as they like: together they must not hold us up."""
    above = await workload(client, DEPLOYMENTS, "web")
    for number in range(200):
        await workload(client, REPLICA_SETS, f"web-{number}", above)
    learnt: dict[str, tuple[Intent, ...]] = {}
    watched = FailedAttemptsWatch(connect(), lambda name, intents: learnt.update({name: intents}))
    async with watched.running():
        await watched.settled()
        failed = {
            f"pod_{line}": [nodes[0], *(f"n{line}-{number}" for number in range(19))] for line in range(150)
        }

        async def all_know() -> bool:
            return sum(map(bool, learnt.values())) == 200

        began_s = time.process_time()
        await has_failed(client, DEPLOYMENTS, above, **failed)
        await eventually(all_know)
        assert time.process_time() - began_s < 0.6
    assert {intents[0].workload.name for intents in learnt.values()} == {f"web-{n}" for n in range(200)}
    assert {intents[0].tried for intents in learnt.values()} == {(nodes[0],)}, "the others don't exist"


async def test_records_of_one_namespace_leave_room_for_those_of_others(
    client: Client, service: SteeringService, nodes: list[str], eventually: Eventually
) -> None:
    """A tenant writes as much as annotations can have on workload after workload."""
    honest = await workload(client, STATEFUL_SETS, "db")
    await has_failed(client, STATEFUL_SETS, honest, db_0=nodes[:1])
    await client.create(NAMESPACES, {"metadata": {"name": "attacker"}})
    for number in range(14):
        metadata = {"namespace": "attacker", "name": f"a-{number}"}
        ledger = AttemptLedger({"a-0": ReplicaLineage((FailedAttempt(1, nodes[0], "x" * 200),) * 20)})
        text = ledger.written("anybody") + " " * 200_000
        metadata["annotations"] = {FAILED_ATTEMPTS_ANNOTATION: text}
        spec = {"template": TEMPLATE, "selector": {"matchLabels": {"app": "web"}}}
        await client.create(STATEFUL_SETS, {"metadata": metadata, "spec": spec})
    last = await workload(client, STATEFUL_SETS, "last")
    await has_failed(client, STATEFUL_SETS, last, last_0=nodes[:1])

    async def is_advised() -> bool:
        return kept_off(await made_by(client, last, "last-0")) == (nodes[0],)

    await eventually(is_advised)
    assert kept_off(await made_by(client, honest, "db-0")) == (nodes[0],)
    assert service._attempts._texts.size < MAX_TEXT_PER_NAMESPACE + 10_000


async def test_a_node_that_is_made_later_is_avoided_too(
    client: Client, service: SteeringService, nodes: list[str], eventually: Eventually
) -> None:
    """It was deleted when the pod had failed there, and comes back under its name."""
    owner = await workload(client, STATEFUL_SETS, "db")
    await has_failed(client, STATEFUL_SETS, owner, db_0=[nodes[0], nodes[1]])
    await client.delete(NODES, nodes[1])

    async def avoids(*expected: str) -> bool:
        return kept_off(await made_by(client, owner, "db-0")) == expected

    await eventually(lambda: avoids(nodes[0]))
    (shape,) = (each for each in node_shapes(3, "node") if each.name == nodes[1])
    await client.create(NODES.as_json, node_object(shape, "node", datetime.now(UTC)))
    await eventually(lambda: avoids(nodes[0], nodes[1]))
