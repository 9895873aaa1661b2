"""When to halt, decided from facts alone."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.api.daemon_status import Halt, HaltReason, Pause
from rescheduler.api.podmigration import decode_migration
from rescheduler.config.policy import HaltWhen
from rescheduler.daemon.halts import (
    FAILURE_WINDOW,
    RESPONSE_WINDOW_S,
    ApiResponses,
    ApiResponseWindow,
    HaltFacts,
    StaleCache,
    current_halts,
    with_original_start,
)
from rescheduler.kube.api_resources import ApiCall

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
LIMITS = HaltWhen()


def migration(
    number=0,
    phase="Failed",
    *,
    ago=timedelta(minutes=1),
    failure="CopyNotReady",
    begun=True,
    strategy="LoadBalancing",
    workload="web",
    copy_is="",
    namespace=None,
):
    finished = (NOW - ago).isoformat()
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": workload, "uid": workload}
    unready = {"type": "CopyReady", "status": "False", "lastTransitionTime": finished, "reason": copy_is}
    return decode_migration(
        {
            "metadata": {
                "namespace": namespace or ("shop", "bank")[number % 2],
                "name": f"m-{number}", "creationTimestamp": finished,
            },
            "spec": {"pod": {"name": "web-1", "uid": "u"}, "sourceNode": "node-1", "strategy": strategy},
            "status": {
                "phase": phase, "finishedAt": finished, "failure": failure if phase == "Failed" else "",
                "startedAt": finished if begun else None, "owner": owner if workload else None,
                "conditions": [unready] if copy_is else [],
            },
        }
    )  # fmt: skip


def reasons(limits=LIMITS, **facts):
    return [halt.reason for halt in current_halts(HaltFacts(now=NOW, **facts), limits)]


def test_without_a_reason_there_is_no_halt():
    assert reasons() == []


def test_each_halt_says_why_and_how_it_ends():
    facts = HaltFacts(
        now=NOW,
        pause=Pause(paused=True, by="ada", at=NOW, why="the fair"),
        migrations=[migration(number) for number in range(4)],
        nodes=3,
        not_ready=["node-1"],
        responses=ApiResponses(10, 6, "list pods returned 500"),
        stale=[StaleCache("pods", 200.0, "the server is away")],
    )
    halts = current_halts(facts, LIMITS)
    assert [halt.reason for halt in halts] == [each for each in HaltReason if each != "NamespaceFailing"]
    reported = {halt.reason: f"{halt.words} | {halt.ends}" for halt in halts}
    assert reported == {
        "Paused": "paused by ada: the fair | when you run `rescheduler resume`",
        "FailureRatio": (
            "4 of the 4 migrations that finished within 15 minutes failed, more than haltWhen.failureRatio "
            "0.5 allows; for example shop/m-2: CopyNotReady | at 12:14:00 UTC, when the failures are older, "
            "or when you run `rescheduler resume`"
        ),
        "NodesNotReady": (
            "1 of 3 nodes are not Ready (node-1), more than haltWhen.notReadyShare 0.3 allows | "
            "when at most 0 of them are not Ready"
        ),
        "ApiFailing": (
            "6 of the last 10 requests to the API server failed: list pods returned 500 | "
            "when most requests succeed again"
        ),
        "CachesStale": (
            "no watch of pods is open; the API server last sent something 200 s ago: the server is away | "
            "when the API server accepts the watches again"
        ),
    }


@pytest.mark.parametrize(
    ("migrations", "halted"),
    [
        pytest.param([migration(n) for n in range(4)], True, id="four that failed, and nothing else"),
        pytest.param(
            [migration(n, namespace=f"team-{n}") for n in range(3)], True, id="three, each in its namespace"
        ),
        pytest.param([migration(n) for n in range(3)], False, id="two in one namespace and one in another"),
        pytest.param([migration(n) for n in range(2)], False, id="two failures are normal"),
        pytest.param(
            [*(migration(n) for n in range(3)), *(migration(9, "Completed") for _ in range(3))],
            False,
            id="exactly the share that is allowed",
        ),
        pytest.param(
            [*(migration(n) for n in range(4)), *(migration(9, "Completed") for _ in range(3))],
            True,
            id="one more than the share",
        ),
        pytest.param([migration(n, ago=FAILURE_WINDOW) for n in range(3)], False, id="long ago"),
        pytest.param([migration(n, failure="Cancelled") for n in range(3)], False, id="cancelled by users"),
        pytest.param(
            [migration(n, failure=why) for n, why in enumerate(("SourceGone", "WorkloadGone", "ScaledDown"))],
            False,
            id="of what others have removed",
        ),
        pytest.param(
            [migration(n, strategy="FailedPods") for n in range(3)], False, id="of pods that fail anyway"
        ),
        pytest.param([migration(n, begun=False) for n in range(3)], False, id="refused at the check"),
        pytest.param(
            [
                migration(n, failure="CopyFailing", copy_is="FailsLikeSource", workload=f"w-{n}")
                for n in range(9)
            ],
            False,
            id="copies of pods that don't run where they are either",
        ),
        pytest.param(
            [migration(n, failure="CopyFailing", workload=f"w-{n % 2}") for n in range(9)],
            False,
            id="copies of two workloads alone",
        ),
        pytest.param(
            [migration(n, failure="CopyFailing", workload="") for n in range(9)],
            False,
            id="of a bare pod, time and again",
        ),
        pytest.param(
            [migration(n, failure="CopyFailing", workload=f"w-{n % 4}") for n in range(8)],
            True,
            id="copies of four workloads, though their pods run well where they are",
        ),
        pytest.param(
            [migration(n, failure="NotReplaced") for n in range(4)],
            True,
            id="pods that were evicted and not replaced",
        ),
        *(
            pytest.param(
                [migration(n, failure=refused) for n in range(9)], False, id=f"{refused} at admission"
            )
            for refused in (
                "BudgetRefused", "CopyRefused", "FinalizerRefused", "MarkRefused", "PlacementRefused"
            )
        ),
    ],
)  # fmt: skip
def test_migrations_that_fail(migrations, halted):
    assert (reasons(migrations=migrations) == [HaltReason.FAILURE_RATIO]) is halted


def held(*migrations):
    """The namespaces that are held back, and whether the whole cluster is."""
    halts = current_halts(HaltFacts(now=NOW, migrations=migrations), LIMITS)
    return {halt.namespace for halt in halts if halt.reason == "NamespaceFailing"}, any(
        not halt.namespace for halt in halts
    )


def test_failures_of_one_namespace_hold_back_that_namespace_alone():
    failed = [migration(n, namespace="shop", workload=f"w-{n}") for n in range(9)]
    assert held(*failed) == ({"shop"}, False)
    (halt,) = current_halts(HaltFacts(now=NOW, migrations=failed), LIMITS)
    assert halt.words == (
        "only namespace shop is halted: 9 of the 9 migrations that finished within 15 minutes failed, "
        "more than haltWhen.failureRatio 0.5 allows; for example shop/m-8: CopyNotReady"
    )
    assert halt.ends.startswith("at 12:14:00 UTC")


def test_a_failure_elsewhere_does_not_make_them_a_matter_of_the_cluster():
    failed = [migration(n, namespace="shop", workload=f"w-{n}") for n in range(9)]
    elsewhere = migration(10, namespace="bank")
    assert held(*failed, elsewhere) == ({"shop"}, False)
    assert held(*failed, elsewhere, migration(11, namespace="bank")) == (set(), True), "two are enough"
    well = [migration(20 + n, "Completed", namespace="bank") for n in range(9)]
    assert held(*failed, elsewhere, migration(11, namespace="bank"), *well) == ({"shop"}, False)


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from(["Failed", "Completed"])), max_size=12
    ),
    st.integers(1, 30),
)
def test_no_namespace_alone_can_halt_the_cluster(others, failures):
    """However many of its migrations fail: two failures at least are elsewhere, and not too few of all."""
    calm = [migration(n, phase, namespace=name) for n, (name, phase) in enumerate(others)]
    storm = [migration(100 + n, namespace="tenant") for n in range(failures)]
    _, is_halted = held(*calm, *storm)
    if is_halted:
        elsewhere = sum(phase == "Failed" for _, phase in others)
        assert elsewhere >= 2
        assert 2 * elsewhere / (elsewhere + len(others)) > LIMITS.failure_ratio


def test_resume_clears_past_failures():
    failed = [migration(n, ago=timedelta(minutes=2)) for n in range(4)]
    assert reasons(migrations=failed, pause=Pause(at=NOW - timedelta(minutes=1))) == []
    assert reasons(migrations=failed, pause=Pause(at=NOW - timedelta(minutes=3))) == ["FailureRatio"]


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 899), st.sampled_from("abcdef")), max_size=12))
def test_the_end_that_is_reported_is_the_end(finished):
    migrations = [
        migration(
            number,
            "Failed" if failed else "Completed",
            ago=timedelta(seconds=ago),
            failure="CopyFailing" if ago % 2 else "TimedOut",
            workload=workload,
        )
        for number, (failed, ago, workload) in enumerate(finished)
    ]
    halts = current_halts(HaltFacts(now=NOW, migrations=migrations), LIMITS)
    if halts:
        ends = datetime.strptime(f"2026-03-02 {halts[0].ends[3:11]} +0000", "%Y-%m-%d %H:%M:%S %z")
        later = current_halts(HaltFacts(now=ends, migrations=migrations), LIMITS)
        just_before = current_halts(HaltFacts(now=ends - timedelta(seconds=1), migrations=migrations), LIMITS)
        (reason, namespace) = halts[0].reason, halts[0].namespace
        assert any(halt.namespace in {"", namespace} for halt in just_before), "by this halt or a larger one"
        assert not any((halt.reason, halt.namespace) == (reason, namespace) for halt in later)


@pytest.mark.parametrize(
    ("not_ready", "nodes", "halted"),
    [(0, 10, False), (3, 10, False), (4, 10, True), (1, 1, True), (0, 0, False)],
)
def test_nodes_that_are_not_ready(not_ready, nodes, halted):
    names = [f"node-{number}" for number in range(not_ready)]
    assert (reasons(nodes=nodes, not_ready=names) == [HaltReason.NODES_NOT_READY]) is halted


def test_the_number_of_nodes_at_which_the_halt_ends_is_exact():
    names = [f"node-{number}" for number in range(30)]
    (halt,) = current_halts(HaltFacts(now=NOW, nodes=100, not_ready=names), HaltWhen(not_ready_share=0.29))
    assert halt.ends == "when at most 29 of them are not Ready", "0.29 * 100 is 28.999999999999996"


def test_limits_can_be_set():
    assert reasons(HaltWhen(not_ready_share=0.5), nodes=10, not_ready=["a", "b", "c", "d"]) == []
    assert reasons(HaltWhen(failure_ratio=1.0), migrations=[migration(n) for n in range(9)]) == []


@pytest.mark.parametrize(("requests", "failed", "halted"), [(4, 4, False), (9, 5, True), (10, 5, False)])
def test_an_api_server_that_errs(requests, failed, halted):
    assert (reasons(responses=ApiResponses(requests, failed)) == [HaltReason.API_FAILING]) is halted


def test_a_cache_that_was_never_filled_is_reported_in_words():
    (halt,) = current_halts(HaltFacts(now=NOW, stale=[StaleCache("pods", float("inf"))]), LIMITS)
    assert halt.words == "pods have not been listed yet"


def test_a_halt_that_goes_on_began_when_it_began():
    before = (Halt(HaltReason.PAUSED, NOW, "", ""),)
    later = HaltFacts(now=NOW + timedelta(hours=1), pause=Pause(paused=True), nodes=1, not_ready=["a"])
    first, second = with_original_start(before, current_halts(later, LIMITS))
    assert (first.since, second.since) == (NOW, NOW + timedelta(hours=1))


def test_only_what_was_answered_lately_counts():
    answering, call = ApiResponseWindow(), ApiCall("list", "pods")
    for second in range(3):
        answering.note(call, 0 if second else 500, float(second))
    answering.note(call, 200, 10.0)
    answering.note(call, 409, 10.0)
    assert answering.lately(10.0) == ApiResponses(5, 3, "list pods got no response")
    assert answering.lately(RESPONSE_WINDOW_S + 5) == ApiResponses(2, 0)


def test_a_server_that_is_back_is_soon_believed():
    answering, call = ApiResponseWindow(), ApiCall("list", "pods")
    for _ in range(100):
        answering.note(call, 500, 0.0)
    assert reasons(responses=answering.lately(0.0)) == [HaltReason.API_FAILING]
    for _ in range(10):
        answering.note(call, 200, 1.0)
    assert reasons(responses=answering.lately(1.0)) == []
