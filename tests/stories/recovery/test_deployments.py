"""A Deployment on a bad node: its pods are moved, steered away, and recover; or the attempts are used up."""

from typing import Any

import pytest

from rescheduler.api.podmigration import Handover, Migration, MigrationPhase
from rescheduler.kube.api_resources import Object
from rescheduler.recovery.attempt_ledger import AttemptLedger
from tests.stories import objects
from tests.stories.objects import ready_since
from tests.stories.recovery.recovery_sandbox import MakeRecovery, RecoverySandbox, alone
from tests.stories.sandbox import node_of


def tried(migrations: list[Migration]) -> list[str]:
    return [migration.status.target_node for migration in migrations if migration.status.started_at]


async def test_failing_pod_gets_another_node(make_recovery: MakeRecovery) -> None:
    """When the pod runs well there, its failed attempt is forgotten."""
    recovery: RecoverySandbox = await make_recovery(nodes=3)
    broken = recovery.sandbox.nodes[0]
    recovery.breaks(broken)
    await recovery.workload_on(broken, "Deployment", retries="3")
    async with recovery.recovering():
        ledger = await recovery.until_ledger("Deployment", lambda ledger: ledger.lineages)
        (line,) = ledger.lineages.values()
        assert (line.count, line.nodes) == (1, (broken,))
        (well,) = await recovery.until_well()
        assert node_of(well) != broken
        await recovery.until_forgotten("Deployment")
        (migration,) = await recovery.until_migrations(1)
    assert migration.status.phase is MigrationPhase.COMPLETED
    assert migration.status.handover is Handover.ADOPT
    assert "attempt 1 of 3" in migration.spec.reason


async def test_three_retries_are_three_reschedulings_and_then_it_is_given_up(
    make_recovery: MakeRecovery,
) -> None:
    """Its own bug, which it has everywhere. Nothing that runs is removed: each copy fails beside it."""
    recovery: RecoverySandbox = await make_recovery(nodes=5)
    recovery.breaks(*recovery.sandbox.nodes)
    first = recovery.sandbox.nodes[0]
    await recovery.workload_on(first, "Deployment", retries="3")
    (source,) = await recovery.pods()
    async with recovery.recovering():
        ledger = await recovery.until_ledger("Deployment", _has_ended)
        migrations = await recovery.until_migrations(3)
        reported = await recovery.until_event("ReschedulingExhausted")
        await recovery.for_a_while()
        assert len(await recovery.migrations()) == 3, "nothing more"
    assert len({first, *tried(migrations)}) == 4, "each time to another node"
    assert {migration.status.failure for migration in migrations} == {"CopyFailing"}
    (line,) = ledger.lineages.values()
    assert line.count == 3
    assert "3 of 3" in reported["message"]
    (left,) = await recovery.pods()
    assert left["metadata"]["uid"] == source["metadata"]["uid"]


@alone
async def test_who_is_given_up_goes_on_when_more_is_allowed(make_recovery: MakeRecovery) -> None:
    recovery: RecoverySandbox = await make_recovery(nodes=3)
    first, second, good = recovery.sandbox.nodes
    recovery.breaks(first, second)
    await recovery.sandbox.cordon(good)
    await recovery.workload_on(first, "Deployment", retries="1")
    await recovery.sandbox.cordon(good)
    async with recovery.recovering():
        await recovery.until_ledger("Deployment", _has_ended)
        await recovery.sandbox.cordon(good, on=False)
        await recovery.for_a_while()
        assert len(await recovery.migrations()) == 1
        await recovery.annotate("Deployment", scheduling_retries="2")
        (well,) = await recovery.until_well()
        assert node_of(well) == good
        await recovery.until_forgotten("Deployment")


async def test_when_all_nodes_were_tried_it_begins_again(make_recovery: MakeRecovery) -> None:
    recovery: RecoverySandbox = await make_recovery(nodes=2)
    first, second = recovery.sandbox.nodes
    recovery.breaks(first, second)
    await recovery.workload_on(first, "Deployment", retries="3")
    async with recovery.recovering():
        await recovery.until_ledger("Deployment", _has_ended)
        migrations = await recovery.until_migrations(3)
    assert tried(migrations) == [second] * 3, migrations


@alone
async def test_a_bad_replica_uses_up_its_own_tries_only(make_recovery: MakeRecovery) -> None:
    recovery: RecoverySandbox = await make_recovery(nodes=4)
    apart = {"affinity": objects.anti_affinity("web")}
    await recovery.workload("Deployment", retries="3", replicas=3, pod=apart)
    unlucky, *siblings = await recovery.until_well(3)
    broken = node_of(unlucky)
    recovery.breaks(broken)
    others = {pod["metadata"]["uid"] for pod in siblings}
    async with recovery.recovering():
        await recovery.until_ledger("Deployment", lambda ledger: ledger.lineages)
        well = await recovery.until_well(3)
        await recovery.until_forgotten("Deployment")
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
async def test_it_is_moved_if(make_recovery: MakeRecovery, how: Object, pod: Object) -> None:
    recovery: RecoverySandbox = await make_recovery(nodes=2)
    broken, good = recovery.sandbox.nodes
    recovery.breaks(broken, **how)
    await recovery.workload_on(broken, "Deployment", retries="1", pod=pod)
    async with recovery.recovering():
        (well,) = await recovery.until_well()
    assert node_of(well) == good


async def test_a_pod_is_left_alone_that_is_merely_slow_to_become_ready(make_recovery: MakeRecovery) -> None:
    await _is_left_alone(await make_recovery(nodes=2), readiness="never")


@alone
async def test_a_pod_is_left_alone_that_was_seen_to_crash_once_or_twice(make_recovery: MakeRecovery) -> None:
    await _is_left_alone(await make_recovery(nodes=2), run={"lasts": "0s", "exitCode": 1, "times": 2})


async def _is_left_alone(recovery: RecoverySandbox, **how: Any) -> None:
    recovery.breaks(*recovery.sandbox.nodes, **how)
    await recovery.workload("Deployment", retries="3")
    async with recovery.recovering():
        await recovery.until_pods(lambda pods: any(pod["status"].get("containerStatuses") for pod in pods))
        await recovery.for_a_while()
        assert await recovery.migrations() == []
        assert not (await recovery.ledger("Deployment")).lineages


async def test_a_workload_without_the_annotation_is_not_moved(make_recovery: MakeRecovery) -> None:
    recovery: RecoverySandbox = await make_recovery(nodes=2)
    recovery.breaks(recovery.sandbox.nodes[0])
    await recovery.workload_on(recovery.sandbox.nodes[0], "Deployment", retries=None)
    async with recovery.recovering():
        await recovery.for_a_while()
        assert await recovery.migrations() == []
    (pod,) = await recovery.pods()
    assert not ready_since(pod)


def _has_ended(ledger: AttemptLedger) -> bool:
    return any(line.end is not None for line in ledger.lineages.values())
