"""Evictions that come again: after a failure, after a pause, of siblings, or with options of all kinds."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from rescheduler.api.podmigration import EVICTION
from rescheduler.api.well_known_names import SAFE_EVICTIONS_ANNOTATION, SAFE_EVICTIONS_DEADLINE_ANNOTATION
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.config.policy import Policy, SafeEvictions
from rescheduler.kube import errors
from rescheduler.kube.api_resources import (
    DEPLOYMENTS,
    NAMESPACES,
    REPLICA_SETS,
    STATEFUL_SETS,
    Object,
    merge_patch,
)
from rescheduler.kube.client import Client
from rescheduler.migrations.interruptions import EVICTION_RETRY_AFTER
from rescheduler.steering.steering_server import SteeringServer
from tests.unit.steering.test_eviction_guard import lead, migrations, put_status, run_web
from tests.unit.steering.test_hostile_evictions import (
    POD,
    Clock,
    guard_of,
    is_held,
    knows_set,
    review,
    run_set,
)

DEADLINE = timedelta(minutes=10)
A_MOMENT = timedelta(seconds=1)


@pytest.fixture
async def webhook(client: Client, guarded: Any) -> AsyncIterator[SteeringServer]:
    await run_web(client, pods=2)
    await lead(client)
    async with guarded(Policy(safe_evictions=SafeEvictions(deadline=DEADLINE))) as made:
        yield made


@pytest.fixture
def clock(webhook: SteeringServer) -> Clock:
    made, guard = Clock(), guard_of(webhook)
    guard._now = made.now
    guard._monotonic_s = lambda: made.now().timestamp()
    return made


async def _remove_record(client: Client, webhook: SteeringServer, eventually: Any) -> None:
    """As the daemon does some time after a move that failed."""
    (made,) = await eventually(lambda: migrations(client))
    await client.delete(POD_MIGRATIONS, f"shop/{made['metadata']['name']}")

    async def is_forgotten() -> bool:
        return not guard_of(webhook)._caches._of_pod

    await eventually(is_forgotten)


# -- another drain


async def test_another_drain_later_may_move_the_pod_after_all(
    client: Client, webhook: SteeringServer, clock: Clock, eventually: Any
) -> None:
    """A pod that could not be moved yesterday must not be unprotected for the rest of its life."""
    assert await is_held(webhook, review())
    await _remove_record(client, webhook, eventually)
    clock.passed += DEADLINE
    assert not await is_held(webhook, review())
    clock.passed += EVICTION_RETRY_AFTER
    assert await is_held(webhook, review())
    assert await eventually(lambda: migrations(client))


async def test_a_client_that_never_stops_trying_is_held_up_once(
    client: Client, webhook: SteeringServer, clock: Clock, eventually: Any
) -> None:
    """A drain that a budget refuses for days is not held up again and again."""
    assert await is_held(webhook, review())
    await _remove_record(client, webhook, eventually)
    clock.passed += DEADLINE
    for _ in range(12):
        assert not await is_held(webhook, review())
        clock.passed += EVICTION_RETRY_AFTER / 2


async def test_a_client_that_tries_once_a_day_gets_its_turn(
    client: Client, webhook: SteeringServer, clock: Clock, eventually: Any
) -> None:
    assert await is_held(webhook, review())
    await _remove_record(client, webhook, eventually)
    clock.passed += timedelta(days=1)
    assert not await is_held(webhook, review())


# -- names and refusals


@pytest.mark.parametrize(
    ("spec", "phase"),
    [
        pytest.param({"pod": {"name": "other", "uid": "other"}}, "", id="of another pod"),
        pytest.param({"strategy": "Manual"}, "Failed", id="of another strategy, failed"),
    ],
)
async def test_a_name_that_was_taken_in_advance_holds_nothing_up(
    spec: dict[str, Any], phase: str, client: Client, webhook: SteeringServer, eventually: Any
) -> None:
    """No PodMigration can move the pod, so the eviction passes at the next try, not after the deadline."""
    pod = await client.get(PODS.as_json, POD)
    uid = pod["metadata"]["uid"]
    taken: Object = {
        "apiVersion": POD_MIGRATIONS.api_version,
        "kind": POD_MIGRATIONS.kind,
        "metadata": {"namespace": "shop", "name": f"eviction-{uid}"},
        "spec": {
            "pod": {"name": "web-1-0", "uid": uid}, "sourceNode": "n1", "strategy": EVICTION,
            "handover": "Adopt", **spec,
        },
    }  # fmt: skip
    made = await client.create(POD_MIGRATIONS, taken)
    if phase:
        status = {"phase": phase, "step": "Failed", "message": "no"}
        await client.replace(POD_MIGRATIONS.status, {**made, "status": status})

    async def passes() -> bool:
        return not await is_held(webhook, review())

    await eventually(passes)


async def test_a_refused_record_is_tried_again_when_the_cause_may_be_gone(
    client: Client, webhook: SteeringServer, clock: Clock, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quota or a missing permission, which an administrator fixes a minute later."""
    guard = guard_of(webhook)
    create = guard._client.create

    async def refuse(*_args: Any, **_more: Any) -> Any:
        raise errors.Forbidden("create podmigrations", "exceeded quota")

    monkeypatch.setattr(guard._client, "create", refuse)
    assert await is_held(webhook, review())

    async def passes() -> bool:
        return not await is_held(webhook, review())

    await eventually(passes)
    monkeypatch.setattr(guard._client, "create", create)
    clock.passed += timedelta(minutes=6)
    assert await is_held(webhook, review())
    assert await eventually(lambda: migrations(client))


# -- siblings


async def test_a_spare_replica_is_given_away_once(client: Client, webhook: SteeringServer) -> None:
    """Two of three ready pods are one too many for one replica less; its status does not show the first
    eviction yet."""
    item = await client.get(REPLICA_SETS, "shop/web-1")
    await client.replace(REPLICA_SETS, {**item, "spec": {**item["spec"], "replicas": 1}})
    caches = guard_of(webhook)._caches
    await _until(lambda: _replicas(caches) == 1)
    assert not await is_held(webhook, review("web-1-0"))
    assert await is_held(webhook, review("web-1-1"))


def _replicas(caches: Any) -> int:
    pod = caches.pod(POD)
    owner = None if pod is None else caches._workload("shop", pod.owner)
    return -1 if owner is None else int(owner.replicas)


async def _until(holds: Any) -> None:

    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - caches have no event for it
            await asyncio.sleep(0.02)


async def test_two_replicas_never_let_two_pods_go_that_can_only_be_evicted(
    client: Client, webhook: SteeringServer, guarded: Any
) -> None:
    """As for a StatefulSet: two clients evict pods, and reach different replicas at the same moment."""
    change = {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}}
    await client.patch(DEPLOYMENTS, "shop/web", merge_patch(change))
    async with guarded() as other:
        for each in (webhook, other):
            caches = guard_of(each)._caches

            def is_known(caches: Any = caches) -> bool:
                top = caches._workloads["Deployment"].get("shop/web")
                return top is not None and top.record.update_type == "Recreate"

            await _until(is_known)
        found = await asyncio.gather(is_held(webhook, review("web-1-0")), is_held(other, review("web-1-1")))
    assert sorted(found) == [False, True]


async def test_pods_that_waited_for_a_sibling_don_t_leave_together(
    client: Client, webhook: SteeringServer, guarded: Any, eventually: Any
) -> None:
    """A set of three loses one pod, and two drains want the other two, at different replicas, for a minute.
    The moment all are ready, only one may go."""
    clock = Clock()
    await run_set(client, pods=3, drained=2)
    async with guarded(Policy(safe_evictions=SafeEvictions(deadline=DEADLINE))) as other:
        for each in (webhook, other):
            guard_of(each)._now = clock.now
            guard_of(each)._turns._monotonic_s = guard_of(each)._monotonic_s = lambda: clock.now().timestamp()
            await eventually(lambda each=each: knows_set(each, 3))
        await put_status(client, STATEFUL_SETS, "shop/db", {"replicas": 3, "readyReplicas": 2})
        for each in (webhook, other):
            await eventually(lambda each=each: knows_set(each, 2))
        for _ in range(12):
            assert await is_held(webhook, review("db-0"))
            assert await is_held(other, review("db-1"))
            clock.passed += timedelta(seconds=5)
        await put_status(client, STATEFUL_SETS, "shop/db", {"replicas": 3, "readyReplicas": 3})
        for each in (webhook, other):
            await eventually(lambda each=each: knows_set(each, 3))
        found = await asyncio.gather(is_held(webhook, review("db-0")), is_held(other, review("db-1")))
    assert sorted(found) == [False, True]


# -- what clients may add to an eviction


@pytest.mark.parametrize(
    ("options", "is_held_up"),
    [
        pytest.param({"preconditions": {"uid": "{uid}"}}, True, id="the uid of the pod"),
        pytest.param({"preconditions": {"uid": "another"}}, False, id="the uid of another pod"),
        pytest.param({"preconditions": {"resourceVersion": "1"}}, True, id="an old version"),
        pytest.param({"preconditions": {}}, True, id="no precondition"),
        pytest.param({"gracePeriodSeconds": 0}, True, id="no grace period"),
        pytest.param({"propagationPolicy": "Orphan"}, True, id="orphans"),
        pytest.param({"dryRun": ["All"]}, False, id="a dry run"),
        pytest.param({"dryRun": []}, True, id="no dry run"),
    ],
)
async def test_options_of_an_eviction(
    options: dict[str, Any], is_held_up: bool, client: Client, webhook: SteeringServer
) -> None:
    uid = (await client.get(PODS.as_json, POD))["metadata"]["uid"]
    wanted = options.get("preconditions")
    if wanted and wanted.get("uid") == "{uid}":
        options = {**options, "preconditions": {"uid": uid}}
    assert await is_held(webhook, review(object={"deleteOptions": options})) is is_held_up


async def test_a_name_for_generated_names_means_nothing(webhook: SteeringServer) -> None:
    """The pod is the one in the path of the request, which the API server authorized."""
    made = {"metadata": {"generateName": "web-1-", "name": "web-1-1"}}
    assert await is_held(webhook, review(object=made))
    assert not await is_held(webhook, review(name="", object=made))


async def test_a_terminating_pod_is_left_alone(client: Client, webhook: SteeringServer) -> None:
    change = {"metadata": {"finalizers": ["example.com/waits"]}}
    await client.patch(PODS, POD, merge_patch(change))
    await client.delete(PODS, POD)
    caches = guard_of(webhook)._caches

    def is_terminating() -> bool:
        pod = caches.pod(POD)
        return pod is not None and pod.is_terminating

    await _until(is_terminating)
    assert not await is_held(webhook, review())
    assert not await migrations(client)


_DEADLINES = (
    "", "0", "-1h", "1e9h", "9" * 1000 + "h", "9" * 200_000 + "h", "2562047h", "NaN", "∞", "1h\n", "10m; 1s",
)  # fmt: skip
_MODES = ("auto", "all", "ALL", "true", "x" * 200_000)


async def test_absurd_annotations(client: Client, webhook: SteeringServer, clock: Clock) -> None:
    """They hold up nothing beyond the deadline, and break nothing."""
    guard = guard_of(webhook)
    namespace = (await client.get(NAMESPACES, "shop"))["metadata"]
    for number, (deadline, mode) in enumerate(itertools.product(_DEADLINES, _MODES)):
        annotations = {SAFE_EVICTIONS_DEADLINE_ANNOTATION: deadline, SAFE_EVICTIONS_ANNOTATION: mode}
        version = str(10**9 + number)
        about = {**namespace, "annotations": annotations, "resourceVersion": version}
        guard._caches._namespaces._cache.put({"metadata": about})
        guard._held.clear()
        clock.passed = timedelta()
        await guard.answer(review())
        clock.passed = DEADLINE
        assert not await is_held(webhook, review()), annotations


async def test_metrics_say_what_became_of_evictions(client: Client, webhook: SteeringServer) -> None:
    assert await is_held(webhook, review())
    assert await is_held(webhook, review())
    assert not await is_held(webhook, review(dryRun=True))
    assert not await is_held(webhook, review("unknown"))
    text = guard_of(webhook).metrics.text().decode()
    assert "rescheduler_evictions_held_total 2.0" in text
    for reason, count in (("DryRun", 1), ("UnknownPod", 1), ("DeadlineExceeded", 0), ("MoveFailed", 0)):
        assert f'rescheduler_evictions_passed_total{{reason="{reason}"}} {count}.0' in text


# -- many budgets


def _budget(number: int, selector: Object) -> Object:
    about = {"namespace": "shop", "name": f"budget-{number}", "uid": f"uid-{number}", "resourceVersion": "1"}
    return {"metadata": about, "spec": {"minAvailable": 1, "selector": selector}, "status": {}}


@pytest.mark.parametrize(
    ("selector", "is_held_up"),
    [
        pytest.param(lambda number: {"matchLabels": {"app": f"app-{number}"}}, True, id="one per workload"),
        pytest.param(
            lambda number: {"matchLabels": {"a": "common", "app": f"app-{number}", "z": "common"}},
            True,
            id="one per workload, with common labels",
        ),
        pytest.param(
            lambda number: {
                "matchExpressions": [
                    {"key": f"key-{each}", "operator": "NotIn", "values": ["a", "b"]} for each in range(50)
                ]
            },
            False,
            id="each of the whole namespace",
        ),
        pytest.param(
            lambda number: {
                "matchLabels": {"app": "web"},
                "matchExpressions": [
                    {"key": "app", "operator": "NotIn", "values": [f"{each}" for each in range(50)]}
                ],
            },
            False,
            id="each of the pod",
        ),
    ],
)
async def test_budgets_of_a_tenant_cost_others_no_time(
    selector: Any, is_held_up: bool, webhook: SteeringServer
) -> None:
    """A user who may create budgets may create thousands, and evict pods of that namespace all the time."""
    index = guard_of(webhook)._caches._budget_index
    # Those of the whole namespace have 50 expressions each: a fifth of them are as much to compare.
    for number in range(5_000 if is_held_up else 1_000):
        index.changed(None, _budget(number, selector(number)))
    began_s = time.thread_time()
    assert await is_held(webhook, review()) is is_held_up
    assert time.thread_time() - began_s < 0.02


async def test_budgets_that_cover_a_pod_are_those_of_the_server(
    client: Client, webhook: SteeringServer, clock: Clock
) -> None:
    """Also after their selectors have changed, and after they are gone."""
    index, pod = guard_of(webhook)._caches._budget_index, guard_of(webhook)._caches.pod(POD)
    assert pod is not None
    versions: list[Object | None] = [
        _budget(1, {"matchLabels": {"app": "web", "tier": "x"}}),
        _budget(1, {"matchLabels": {"app": "web"}}),
        _budget(1, {"matchLabels": {"app": "other"}}),
        _budget(1, {}),
        {**_budget(1, {}), "spec": {"minAvailable": 1}},
        _budget(1, {"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
        None,
    ]
    covers, before = [], None
    for version in versions:
        index.changed(before, version)
        covers.append(len(index.of_pod(pod) or ()))
        before = version
    assert covers == [0, 1, 0, 1, 0, 1, 0]
    assert not index._namespaces
    assert not index._indexed
