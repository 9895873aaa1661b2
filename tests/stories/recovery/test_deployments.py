"""A Deployment on a node that breaks its pods: moved away, kept off, recovered, forgotten; or given up."""

from typing import Any

import pytest

from rescheduler.api.podmigration import Handover, Migration, MigrationPhase
from rescheduler.kube.api_resources import Object
from rescheduler.recovery.attempt_ledger import AttemptLedger
from tests.stories import objects
from tests.stories.objects import ready_since
from tests.stories.recovery.ward import SetWard, Ward, alone
from tests.stories.stage import node_of


def tried(migrations: list[Migration]) -> list[str]:
    return [migration.status.target_node for migration in migrations if migration.status.started_at]


async def test_failing_pod_gets_another_node(set_ward: SetWard) -> None:
    """When the pod runs well there, its failed attempt is forgotten."""
    ward: Ward = await set_ward(nodes=3)
    broken = ward.stage.nodes[0]
    ward.breaks(broken)
    await ward.workload_on(broken, "Deployment", retries="3")
    async with ward.recovering():
        ledger = await ward.until_ledger("Deployment", lambda ledger: ledger.lineages)
        (line,) = ledger.lineages.values()
        assert (line.count, line.nodes) == (1, (broken,))
        (well,) = await ward.until_well()
        assert node_of(well) != broken
        await ward.until_forgotten("Deployment")
    (migration,) = await ward.migrations()
    assert migration.status.phase is MigrationPhase.COMPLETED
    assert migration.status.handover is Handover.ADOPT
    assert "attempt 1 of 3" in migration.spec.reason


async def test_three_retries_are_three_reschedulings_and_then_it_is_given_up(set_ward: SetWard) -> None:
    """Its own bug, which it has everywhere. Nothing that runs is removed: each copy fails beside it."""
    ward: Ward = await set_ward(nodes=5)
    ward.breaks(*ward.stage.nodes)
    first = ward.stage.nodes[0]
    await ward.workload_on(first, "Deployment", retries="3")
    (source,) = await ward.pods()
    async with ward.recovering():
        ledger = await ward.until_ledger("Deployment", _has_ended)
        migrations = await ward.until_migrations(3)
        told = await ward.until_event("ReschedulingExhausted")
        await ward.for_a_while()
        assert len(await ward.migrations()) == 3, "nothing more"
    assert len({first, *tried(migrations)}) == 4, "each time to another node"
    assert {migration.status.failure for migration in migrations} == {"CopyFailing"}
    (line,) = ledger.lineages.values()
    assert line.count == 3
    assert "3 of 3" in told["message"]
    (left,) = await ward.pods()
    assert left["metadata"]["uid"] == source["metadata"]["uid"]


@alone
async def test_who_is_given_up_goes_on_when_more_is_allowed(set_ward: SetWard) -> None:
    ward: Ward = await set_ward(nodes=3)
    first, second, good = ward.stage.nodes
    ward.breaks(first, second)
    await ward.stage.cordon(good)
    await ward.workload_on(first, "Deployment", retries="1")
    await ward.stage.cordon(good)
    async with ward.recovering():
        await ward.until_ledger("Deployment", _has_ended)
        await ward.stage.cordon(good, on=False)
        await ward.for_a_while()
        assert len(await ward.migrations()) == 1
        await ward.annotate("Deployment", scheduling_retries="2")
        (well,) = await ward.until_well()
        assert node_of(well) == good
        await ward.until_forgotten("Deployment")


async def test_when_all_nodes_were_tried_it_begins_anew(set_ward: SetWard) -> None:
    ward: Ward = await set_ward(nodes=2)
    first, second = ward.stage.nodes
    ward.breaks(first, second)
    await ward.workload_on(first, "Deployment", retries="3")
    async with ward.recovering():
        await ward.until_ledger("Deployment", _has_ended)
        migrations = await ward.until_migrations(3)
    assert tried(migrations) == [second] * 3, migrations


@alone
async def test_a_bad_replica_uses_up_its_own_tries_only(set_ward: SetWard) -> None:
    ward: Ward = await set_ward(nodes=4)
    apart = {"affinity": objects.anti_affinity("web")}
    await ward.workload("Deployment", retries="3", replicas=3, pod=apart)
    unlucky, *siblings = await ward.until_well(3)
    broken = node_of(unlucky)
    ward.breaks(broken)
    others = {pod["metadata"]["uid"] for pod in siblings}
    async with ward.recovering():
        await ward.until_ledger("Deployment", lambda ledger: ledger.lineages)
        well = await ward.until_well(3)
        await ward.until_forgotten("Deployment")
    assert others <= {pod["metadata"]["uid"] for pod in well}
    assert broken not in map(node_of, well)


SIDECAR = {"name": "sidecar", "image": "shop/proxy:1"}
MAIN = {"name": "main", "image": "shop/web:1"}
INIT = {"name": "init", "image": "shop/init:1"}


@pytest.mark.parametrize(
    ("how", "pod"),
    [
        pytest.param({"blocked": "ImagePullBackOff"}, {}, id="its image can't be pulled"),
        pytest.param({"blocked": "ContainerCreating"}, {}, id="it is stuck in ContainerCreating"),
        pytest.param(
            {"init": {"lasts": "0s", "exitCode": 1}, "container": "init"},
            {"initContainers": [INIT]},
            id="its init container fails",
        ),
        pytest.param(
            {"run": {"lasts": "0s", "exitCode": 1}, "container": "main"},
            {"containers": [MAIN, SIDECAR]},
            id="it crashes beside a healthy sidecar",
        ),
    ],
)
async def test_it_is_moved_if(set_ward: SetWard, how: Object, pod: Object) -> None:
    ward: Ward = await set_ward(nodes=2)
    broken, good = ward.stage.nodes
    ward.breaks(broken, **how)
    await ward.workload_on(broken, "Deployment", retries="1", pod=pod)
    async with ward.recovering():
        (well,) = await ward.until_well()
    assert node_of(well) == good


async def test_a_pod_is_left_alone_that_is_merely_slow_to_become_ready(set_ward: SetWard) -> None:
    await _is_left_alone(await set_ward(nodes=2), readiness="never")


@alone
async def test_a_pod_is_left_alone_that_was_seen_to_crash_once_or_twice(set_ward: SetWard) -> None:
    await _is_left_alone(await set_ward(nodes=2), run={"lasts": "0s", "exitCode": 1, "times": 2})


async def _is_left_alone(ward: Ward, **how: Any) -> None:
    ward.breaks(*ward.stage.nodes, **how)
    await ward.workload("Deployment", retries="3")
    async with ward.recovering():
        await ward.until_pods(lambda pods: any(pod["status"].get("containerStatuses") for pod in pods))
        await ward.for_a_while()
        assert await ward.migrations() == []
        assert not (await ward.ledger("Deployment")).lineages


async def test_nobody_is_moved_who_has_not_asked_for_it(set_ward: SetWard) -> None:
    ward: Ward = await set_ward(nodes=2)
    ward.breaks(ward.stage.nodes[0])
    await ward.workload_on(ward.stage.nodes[0], "Deployment", retries=None)
    async with ward.recovering():
        await ward.for_a_while()
        assert await ward.migrations() == []
    (pod,) = await ward.pods()
    assert not ready_since(pod)


def _has_ended(ledger: AttemptLedger) -> bool:
    return any(line.end is not None for line in ledger.lineages.values())
