"""Everything put together: judging, checks, plans carried out, and who executes, in virtual time."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from rescheduler.api.podmigration import MANUAL, Handover, MigrationPhase, decode_migration
from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME
from rescheduler.api.well_known_names import (
    CONTINUES_ANNOTATION,
    NEXT_HOP_ANNOTATION,
    REQUESTED_BY_ANNOTATION,
)
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.node_record import NodeChange, maintenance_requester
from rescheduler.cluster.sources.watched_cluster import MissingPodMigrationCRD
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.config.policy import Configuration, LeaderElection, Policy, UsageSource
from rescheduler.daemon.components import Rescheduler, lease_key
from rescheduler.daemon.node_drain import start_maintenance
from rescheduler.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, LEASES, merge_patch
from rescheduler.migrations.controller.plan_execution import PlanExecution, podmigration_for
from rescheduler.migrations.observation import RevalidationOutcome
from rescheduler.migrations.runtime_state import SteeringStatus
from rescheduler.planner.plan import Move, Plan, PlannedNodeChange
from tests.stories.sandbox import node_of

LEASE = "default/rescheduler"
POLICY = Policy(
    settle_time=timedelta(seconds=1), min_pod_age=timedelta(), usage_source=UsageSource.REQUESTS
)  # fmt: skip


@pytest.fixture
def made(connect, server):
    def rescheduler(name="me", policy=POLICY, client=None, **more):
        configuration = Configuration(policy=policy, leader_election=LeaderElection())
        return Rescheduler(
            client or connect(), configuration, lease_at=LEASE, now=server.clock.now, me=name, **more
        )

    return rescheduler


def a_move(pod, to, **more):
    wanted = {
        "pod": f"{pod['metadata']['namespace']}/{pod['metadata']['name']}",
        "uid": pod["metadata"]["uid"],
        "source": node_of(pod),
        "target": to,
        "strategy": "LoadBalancing",
        "handover": Handover.ADOPT,
        "reason": "test",
        "gain": 0.1,
        **more,
    }
    return Move(**wanted)


def a_plan(server, *moves, **more):
    return Plan(taken_at_s=server.clock.now().timestamp(), moves=moves, **more)


async def carried_out(rescheduler, plan):
    run = PlanExecution(rescheduler.client, rescheduler.watched, plan)
    async with rescheduler.watching(), rescheduler.executing():
        await run.run()
    return run


async def test_a_plan_is_carried_out_and_nothing_of_it_is_left(make_moves, made, server, client):
    moves = await make_moves(3)
    await moves.sandbox.deployment(2)
    pod = (await moves.sandbox.pods())[0]
    target = await moves.sandbox.free_node()
    run = await carried_out(made(), a_plan(server, a_move(pod, target)))
    (progress,) = run.moves
    assert progress.is_completed
    assert target in {node_of(each) for each in await moves.sandbox.pods()}
    assert await moves.leftovers() == []
    reasons = {event["reason"] for event in (await client.list(EVENTS)).items}
    assert {"MigrationStarted", "MigrationHandedOver", "MigrationCompleted"} <= reasons, "told to the end"
    assert (await client.get(LEASES, LEASE))["spec"]["holderIdentity"] == "", "given back"


async def test_the_same_plan_again_asks_for_nothing_new(make_moves, made, server, client):
    moves = await make_moves(3)
    await moves.sandbox.deployment(1)
    pod = (await moves.sandbox.pods())[0]
    plan = a_plan(server, a_move(pod, await moves.sandbox.free_node()))
    await carried_out(made(), plan)
    again = await carried_out(made("another"), plan)
    assert again.moves[0].is_completed
    assert len((await client.list(POD_MIGRATIONS)).items) == 1


async def test_a_pod_that_another_plan_moves_already_is_not_asked_for_again(make_moves, made, server, client):
    moves = await make_moves(3)
    await moves.sandbox.deployment(1)
    pod = (await moves.sandbox.pods())[0]
    plan = a_plan(server, a_move(pod, await moves.sandbox.free_node()))
    later = replace(plan, taken_at_s=plan.taken_at_s + 1)
    rescheduler, recorded, is_asking, may_go_on = made(), [], asyncio.Event(), asyncio.Event()
    is_asked = asyncio.Event()

    async def record(move, planned_s):
        recorded.append(planned_s)
        is_asking.set()
        await may_go_on.wait()
        return ""

    def run_of(plan):
        def on_progress(progress):
            is_asked.set()

        return PlanExecution(rescheduler.client, rescheduler.watched, plan, on_progress, record=record)

    async with rescheduler.watching(), rescheduler.executing(), asyncio.timeout(60):
        first, second, third = run_of(plan), run_of(later), run_of(later)
        running = asyncio.create_task(first.run())
        await is_asking.wait()
        await second.run()
        assert (
            second.moves[0].cancelled_because == "cancelled before it started: another request moves the pod"
        )
        is_asked.clear()
        may_go_on.set()
        await is_asked.wait()
        await third.run()
        name = first.moves[0].key.partition("/")[2]
        assert (
            third.moves[0].cancelled_because == f"cancelled before it started: {name} already moves the pod"
        )
        await running
    assert first.moves[0].is_completed
    assert recorded == [plan.taken_at_s], "counted once"
    assert len((await client.list(POD_MIGRATIONS)).items) == 1


def hops_of(item):
    """Without what tells of the plan, for the history."""
    said = item["metadata"]["annotations"]
    return {key: value for key, value in said.items() if key in {NEXT_HOP_ANNOTATION, CONTINUES_ANNOTATION}}


async def test_a_pod_that_stops_on_its_way_goes_on_under_its_new_name(make_moves, made, server):
    moves = await make_moves(3)
    await moves.sandbox.deployment(1)
    pod = (await moves.sandbox.pods())[0]
    source = node_of(pod)
    stop, end = (node for node in moves.sandbox.nodes if node != source)
    plan = a_plan(
        server,
        a_move(pod, stop, hop=True, wave=0),
        a_move(pod, end, source=stop, wave=1),
    )
    run = await carried_out(made(), plan)
    assert [progress.is_completed for progress in run.moves] == [True, True], run.moves
    (there,) = await moves.sandbox.until_ready(1)
    assert node_of(there) == end
    first, second = [await moves.client.get(POD_MIGRATIONS, progress.key) for progress in run.moves]
    assert hops_of(first) == {NEXT_HOP_ANNOTATION: end}, "on record before anybody has to know"
    assert hops_of(second) == {CONTINUES_ANNOTATION: first["metadata"]["name"]}


async def test_a_second_leg_is_given_up_if_the_stop_was_not_reached(make_moves, made, server):
    moves = await make_moves(3)
    await moves.sandbox.deployment(1)
    pod = (await moves.sandbox.pods())[0]
    stop, end = (node for node in moves.sandbox.nodes if node != node_of(pod))
    await moves.sandbox.cordon(stop)
    plan = a_plan(server, a_move(pod, stop, hop=True), a_move(pod, end, source=stop, wave=1))
    first, second = (await carried_out(made(), plan)).moves
    assert first.migration.status.phase is MigrationPhase.FAILED
    assert "cordoned" in first.migration.status.message
    assert second.cancelled_because
    assert node_of((await moves.sandbox.pods())[0]) == node_of(pod)


async def test_stopping_begins_nothing_more_and_lets_the_rest_come_to_its_end(make_moves, made, server):
    moves = await make_moves(4)
    await moves.sandbox.deployment(3)
    pods = await moves.sandbox.pods()
    target = await moves.sandbox.free_node()
    policy = replace(POLICY, max_concurrent_migrations=1)
    plan = a_plan(server, *(a_move(pod, target, wave=wave) for wave, pod in enumerate((pods[0], pods[1]))))
    rescheduler = made(policy=policy)
    begun = asyncio.Event()

    def on_progress(progress):
        if progress.migration is not None and progress.migration.status.phase is MigrationPhase.IN_PROGRESS:
            begun.set()

    run = PlanExecution(rescheduler.client, rescheduler.watched, plan, on_progress)
    async with rescheduler.watching(), rescheduler.executing():
        running = asyncio.create_task(run.run())
        await begun.wait()
        run.stop()
        await running
    assert run.moves[0].is_completed
    assert "cancelled before it started" in run.moves[1].cancelled_because
    assert await moves.leftovers() == []


async def test_nodes_are_cordoned_with_our_mark_and_only_ours_are_uncordoned(
    make_moves, made, server, client
):
    moves = await make_moves(3)
    first, second, _ = moves.sandbox.nodes
    await moves.sandbox.cordon(second)
    cordon = [PlannedNodeChange(node, NodeChange.CORDON, "NodeMaintenance", "") for node in (first, second)]
    await carried_out(made(), a_plan(server, changes=tuple(cordon)))
    assert (await client.get(NODES, first)).annotations["rescheduler.dev/cordoned-by"] == "NodeMaintenance"
    uncordon = [
        PlannedNodeChange(node, NodeChange.UNCORDON, "NodeMaintenance", "") for node in (first, second)
    ]
    await carried_out(made("another"), a_plan(server, changes=tuple(uncordon)))
    assert [(await client.get(NODES, node)).unschedulable for node in (first, second)] == [False, True]


async def test_who_drained_a_node_is_forgotten_when_it_is_uncordoned(make_moves, made, server, client):
    """Someone else may label it next: the annotation would name the wrong user."""
    moves = await make_moves(2)
    node = moves.sandbox.nodes[0]
    await start_maintenance(client, [node], "ann")
    cordon = PlannedNodeChange(node, NodeChange.CORDON, "NodeMaintenance", "")
    await carried_out(made(), a_plan(server, changes=(cordon,)))
    assert maintenance_requester(await client.get(NODES, node)) == "ann"
    await carried_out(made("another"), a_plan(server, changes=(replace(cordon, change=NodeChange.UNCORDON),)))
    assert REQUESTED_BY_ANNOTATION not in (await client.get(NODES, node)).annotations


async def test_without_the_definition_there_is_nothing_to_do(make_moves, made, client):
    await make_moves(1)
    await client.delete(CUSTOM_RESOURCE_DEFINITIONS, PODMIGRATION_CRD_NAME)
    await asyncio.sleep(5)
    with pytest.raises(MissingPodMigrationCRD):
        async with made().watching():
            pass


async def test_checks_even_out_the_nodes_and_then_find_nothing_to_do(make_moves, made, client):
    moves = await make_moves(3)
    crowded, *others = moves.sandbox.nodes
    await moves.sandbox.cordon(*others)
    await moves.sandbox.deployment(4, pod={"containers": [_busy("1500m")]})
    await moves.sandbox.cordon(*others, on=False)
    rescheduler = made(policy=replace(POLICY, max_concurrent_per_workload=2))
    planned = []
    async with rescheduler.watching(), rescheduler.executing(), rescheduler.checking() as loop:
        async for check in loop.checks():
            planned.append(len(check.plan.moves))
            await PlanExecution(
                rescheduler.client, rescheduler.watched, check.plan, record=rescheduler.record
            ).run()
            if not check.plan.moves or len(planned) == 5:
                break
    assert planned[0] > 0
    assert planned[-1] == 0
    used = {pod.node for pod in (await client.list(PODS, namespace="moves")).items if not pod.is_terminating}
    assert len(used) == 3
    assert crowded in used


def _busy(cpu):
    return {"name": "web", "image": "web:1", "resources": {"requests": {"cpu": cpu}}}


# -- who executes


async def test_the_leader_executes_what_another_process_requests(make_moves, made, server):
    moves = await make_moves(3)
    await moves.sandbox.deployment(1)
    daemon, command = made("daemon"), made("command")
    async with daemon.watching(), daemon.executing():
        await daemon.lease.acquired()
        pod = (await moves.sandbox.pods())[0]
        run = await carried_out(command, a_plan(server, a_move(pod, await moves.sandbox.free_node())))
        assert run.moves[0].is_completed
        assert command.lease.holder == "daemon"


async def test_the_lease_is_in_our_own_namespace_or_where_it_is_configured_to_be(client, server):
    configuration = Configuration()
    assert await lease_key(client, configuration) == "kube-system/rescheduler"
    assert await lease_key(client, configuration, "ours") == "ours/rescheduler"
    named = Configuration(leader_election=LeaderElection(resource_namespace="ops"))
    assert await lease_key(client, named, "ours") == "ops/rescheduler"


# -- judging


async def _revalidated(rescheduler, client, move, **spec):
    item = podmigration_for(move, 1.0)
    item["spec"] |= spec
    made = decode_migration(await client.create(POD_MIGRATIONS, item))
    async with rescheduler.watching():
        return rescheduler.revalidation.revalidate(made)


async def test_a_good_move_is_approved_with_its_handover_and_owner(make_moves, made, client):
    moves = await make_moves(3)
    await moves.sandbox.deployment(1)
    pod = (await moves.sandbox.pods())[0]
    target = await moves.sandbox.free_node()
    verdict = await _revalidated(made(), client, a_move(pod, target))
    assert (verdict.outcome, verdict.handover, verdict.target) == (
        RevalidationOutcome.APPROVED,
        Handover.ADOPT,
        target,
    )
    assert verdict.owner.kind == "ReplicaSet"


async def test_without_a_target_one_is_chosen_and_never_the_source(make_moves, made, client):
    moves = await make_moves(3)
    await moves.sandbox.deployment(1)
    pod = (await moves.sandbox.pods())[0]
    verdict = await _revalidated(made(), client, a_move(pod, None, handover=Handover.AUTO))
    assert verdict.outcome is RevalidationOutcome.APPROVED
    assert verdict.target in set(moves.sandbox.nodes) - {node_of(pod)}


async def test_a_person_may_move_what_the_program_would_leave_to_rest(make_moves, made, client):
    moves = await make_moves(3)
    await moves.sandbox.deployment(1)
    pod = (await moves.sandbox.pods())[0]
    resting = replace(POLICY, min_pod_age=timedelta(hours=1))
    target = await moves.sandbox.free_node()
    by_plan = await _revalidated(made(policy=resting), client, a_move(pod, target))
    assert (by_plan.outcome, by_plan.reason) == (RevalidationOutcome.REFUSED, "TooYoung")
    by_hand = made(policy=resting)
    async with by_hand.watching():
        (item,) = (await client.list(POD_MIGRATIONS)).items
        item["spec"]["strategy"] = MANUAL
        assert by_hand.revalidation.revalidate(decode_migration(item)).outcome is RevalidationOutcome.APPROVED


async def test_a_spent_budget_postpones_an_eviction_and_refuses_it_in_the_end(
    make_moves, made, client, server
):
    moves = await make_moves(3)
    await moves.sandbox.deployment(2, strategy={"type": "Recreate"})
    await moves.sandbox.budget(minAvailable=2)
    pod = (await moves.sandbox.pods())[0]
    rescheduler = made()
    rescheduler.runtime.update(steering=SteeringStatus(steers=True))
    move = a_move(pod, await moves.sandbox.free_node(), handover=Handover.EVICT)
    verdict = await _revalidated(rescheduler, client, move)
    assert (verdict.outcome, verdict.reason) == (RevalidationOutcome.POSTPONED, "BudgetSpent")
    await asyncio.sleep(POLICY.migration_timeout.total_seconds())
    async with rescheduler.watching():
        (item,) = (await client.list(POD_MIGRATIONS)).items
        assert (
            rescheduler.revalidation.revalidate(decode_migration(item)).outcome is RevalidationOutcome.REFUSED
        )


async def test_two_that_are_approved_in_one_moment_both_find_room(make_moves, made, client):
    """The node has room for one of them: the second is not sent where the first will be."""
    moves = await make_moves(3)
    await moves.sandbox.deployment(2, pod={"containers": [_busy("5")]})
    first, second = await moves.sandbox.pods()
    target = await moves.sandbox.free_node()
    rescheduler = made()
    requested = [
        decode_migration(await client.create(POD_MIGRATIONS, podmigration_for(a_move(pod, target), 1.0)))
        for pod in (first, second)
    ]
    async with rescheduler.watching():
        answers = [rescheduler.revalidation.revalidate(each) for each in requested]
    assert [each.outcome for each in answers] == [RevalidationOutcome.APPROVED, RevalidationOutcome.REFUSED]
    assert "Insufficient cpu" in answers[1].message


async def test_a_node_that_is_cordoned_while_the_finalizer_is_added_is_no_target(
    make_moves, made, server, connect
):
    """A PodMigration that you create has no finalizer. A server that is busy may need seconds to add it: what
    was known before does not count any more."""
    moves = await make_moves(3)
    await moves.sandbox.deployment(1)
    (pod,) = await moves.sandbox.pods()
    target = await moves.sandbox.free_node()
    answer = server.handle

    async def slowly(method, request, headers, body):
        if method == "PATCH" and "/podmigrations/" in request:
            await moves.sandbox.cordon(target)
            await asyncio.sleep(5)
        return await answer(method, request, headers, body)

    rescheduler = made(client=connect(slowly))
    async with rescheduler.watching(), rescheduler.executing():
        found = await moves.until_finished(await moves.create_migration(pod, target, held=False))
    assert (found.status.phase, found.status.attempts) == (MigrationPhase.FAILED, 0), "nothing was touched"


async def test_a_node_that_is_cordoned_meanwhile_is_no_target(make_moves, made, client):
    moves = await make_moves(3)
    await moves.sandbox.deployment(1)
    pod = (await moves.sandbox.pods())[0]
    target = await moves.sandbox.free_node()
    await client.patch(NODES, target, merge_patch({"spec": {"unschedulable": True}}))
    verdict = await _revalidated(made(), client, a_move(pod, target))
    assert (verdict.outcome, verdict.reason) == (RevalidationOutcome.REFUSED, "TargetUnfit")
