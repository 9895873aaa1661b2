"""Metrics count every event once, and their number doesn't grow with the cluster."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.api.daemon_status import FailingPod, Halt, HaltReason, NodeInMaintenance, SuspectNode
from rescheduler.api.podmigration import (
    EVICTION,
    ControllerReference,
    Handover,
    MigrationCondition,
    MigrationPhase,
    MigrationStatus,
)
from rescheduler.config.policy import Policy
from rescheduler.daemon.listeners import CheckReport
from rescheduler.daemon.metrics import Metrics
from rescheduler.kube.api_resources import ApiCall
from rescheduler.migrations.transition_table import MigrationStep
from rescheduler.planner.plan import Move, NodeLoadChange, Plan
from tests.unit.migrations.observations import NOW, migration

CLUSTER_WIDE = set(HaltReason) - {HaltReason.NAMESPACE_FAILING}


def value(meters, name, **labels):
    return meters.registry.get_sample_value(f"rescheduler_{name}", labels)


def finished(handover=Handover.ADOPT, *, ok=True, **status):
    step = MigrationStep.COMPLETED if ok else MigrationStep.FAILED
    return migration(
        step, handover, status={"finished_at": NOW + timedelta(seconds=40), **status}, finalizers=()
    )


def move(strategy="LoadBalancing", handover=Handover.ADOPT):
    return Move(
        pod="shop/a",
        uid="u",
        source="n-1",
        target="n-2",
        strategy=strategy,
        handover=handover,
        reason="",
        gain=1.0,
    )


def check(plan, **more):
    values = {
        "number": 1,
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "took_s": 0.3,
        "planning_s": 0.2,
        "snapshot": None,
        "plan": plan,
        "usage_source": "requests",
        "is_carried_out": True,
    }
    return CheckReport(**(values | more))


def test_a_check_is_counted_with_its_moves_and_its_refusals():
    meters = Metrics()
    meters.checked(check(Plan(taken_at_s=0, moves=(move(), move()), refused_counts={"JobPod": 3})))
    assert value(meters, "checks_total", carried_out="true") == 1
    assert value(meters, "moves_proposed_total", strategy="LoadBalancing", handover="Adopt") == 2
    assert value(meters, "refused_pods", reason="JobPod") == 3
    assert value(meters, "plan_duration_seconds_sum") == pytest.approx(0.2)


def test_a_refusal_that_no_longer_holds_is_no_longer_reported():
    meters = Metrics()
    meters.checked(check(Plan(taken_at_s=0, refused_counts={"JobPod": 3})))
    meters.checked(check(Plan(taken_at_s=0, refused_counts={"NoTarget": 1})))
    assert value(meters, "refused_pods", reason="JobPod") is None


def test_loads_are_reported_as_extremes_and_mean_not_node_by_node():
    nodes = tuple(
        NodeLoadChange(f"n-{n}", {"cpu": load}, {"cpu": 50.0}) for n, load in enumerate((20.0, 30.0, 85.0))
    )
    meters = Metrics()
    meters.checked(check(Plan(taken_at_s=0, nodes=nodes)))
    reported = {
        kind: value(meters, "node_load_ratio", resource="cpu", statistic=kind)
        for kind in ("min", "mean", "max")
    }
    assert reported == {"min": 0.2, "mean": pytest.approx(0.45), "max": 0.85}
    assert value(meters, "node_load_imbalance_ratio", resource="cpu") == pytest.approx(0.65)


def test_a_migration_is_counted_when_it_begins_and_when_it_ends():
    meters, labels = Metrics(), {"strategy": "LoadBalancing", "handover": "Adopt"}
    queued, begun, done = migration(), migration(MigrationStep.MARKING), finished()
    meters.migration_changed(None, queued)
    meters.migration_changed(queued, begun)
    assert value(meters, "migrations_started_total", **labels) == 1
    assert value(meters, "migrations_in_progress") == 1
    meters.migration_changed(begun, done)
    meters.migration_changed(done, done)
    meters.migration_changed(done, None)
    assert value(meters, "migrations_in_progress") == 0
    assert value(meters, "migrations_finished_total", outcome="Completed", **labels) == 1
    assert value(meters, "migration_duration_seconds_sum", handover="Adopt", outcome="Completed") == 40


def test_what_had_ended_before_the_process_began_is_not_counted_again():
    meters = Metrics()
    meters.migration_changed(None, finished())
    assert "rescheduler_migrations_finished_total{" not in meters.text().decode()


def test_a_second_attempt_is_no_second_migration():
    meters = Metrics()
    again = msgspec.structs.replace(migration(MigrationStep.MARKING).status, attempts=2)
    meters.migration_changed(migration(), migration(MigrationStep.MARKING, status={}))
    meters.migration_changed(
        migration(), msgspec.structs.replace(migration(MigrationStep.MARKING), status=again)
    )
    assert value(meters, "migrations_started_total", strategy="LoadBalancing", handover="Adopt") == 1


def test_a_failure_is_counted_with_its_reason():
    meters = Metrics()
    meters.migration_changed(migration(MigrationStep.ROLLING_BACK), finished(ok=False, failure="CopyFailing"))
    assert value(meters, "migration_failures_total", failure="CopyFailing") == 1


def test_how_long_an_eviction_waited_is_counted_from_its_first_try():
    meters, end = Metrics(), finished()
    spec = msgspec.structs.replace(end.spec, strategy=EVICTION)
    end = msgspec.structs.replace(end, spec=spec, created=NOW - timedelta(seconds=20))
    meters.migration_changed(msgspec.structs.replace(migration(), spec=spec), end)
    assert value(meters, "safe_eviction_wait_seconds_sum", outcome="Completed") == 60
    assert value(
        meters, "migrations_finished_total", strategy=EVICTION, handover="Adopt", outcome="Completed"
    )


def test_lost_ready_seconds():
    """With a copy none are lost; with an eviction they count until the successor is ready."""
    meters = Metrics()
    ready = MigrationCondition("CopyReady", "True", NOW + timedelta(seconds=10), "Ready")
    handed_over = MigrationCondition("HandedOver", "True", NOW + timedelta(seconds=25), "Evicted")
    meters.migration_changed(migration(MigrationStep.RELEASING), finished(conditions=(ready, handed_over)))
    assert value(meters, "ready_seconds_lost_total", handover="Adopt") == 0
    meters.migration_changed(
        migration(MigrationStep.RELEASING), finished(Handover.EVICT, conditions=(handed_over,))
    )
    assert value(meters, "ready_seconds_lost_total", handover="Evict") == 15


def test_words_that_users_write_into_migrations_make_no_series():
    meters = Metrics()
    spec = msgspec.structs.replace(migration().spec, strategy="whatever-anybody-writes")
    meters.migration_changed(
        msgspec.structs.replace(migration(), spec=spec),
        msgspec.structs.replace(migration(MigrationStep.MARKING), spec=spec),
    )
    assert value(meters, "migrations_started_total", strategy="other", handover="Adopt") == 1


def test_each_halt_is_a_series_that_is_there_from_the_beginning():
    meters = Metrics()
    assert {value(meters, "halted", reason=reason) for reason in CLUSTER_WIDE} == {0}
    meters.halted((Halt(HaltReason.NODES_NOT_READY, NOW, "", ""),))
    assert value(meters, "halted", reason="NodesNotReady") == 1
    meters.halted(())
    assert value(meters, "halted", reason="NodesNotReady") == 0


def test_requests_are_counted_by_verb_and_code_and_watches_are_not_timed():
    meters = Metrics()
    meters.requested(ApiCall("list", "pods"), 200, 0.1)
    meters.requested(ApiCall("watch", "pods"), 200, 300.0)
    meters.requested(ApiCall("patch", "pods"), 0, 30.0)
    assert value(meters, "api_requests_total", verb="list", code="200") == 1
    assert value(meters, "api_requests_total", verb="patch", code="none") == 1
    assert value(meters, "api_request_duration_seconds_count", verb="watch") is None


def test_the_state_of_the_cluster_is_reported_in_numbers():
    meters = Metrics(lags=lambda: {"Pod": 3.5}, depth=lambda: 7)
    meters.failing([FailingPod("a", "n", "", 1, 3), FailingPod("b", "n", "", 3, 3)])
    meters.suspects([SuspectNode("n", 3)])
    meters.maintenance(
        [NodeInMaintenance("n", 2), NodeInMaintenance("m", 0), NodeInMaintenance("o", 1, ("x",))]
    )
    assert value(meters, "failing_pods", state="given-up") == 1
    assert value(meters, "failing_pods", state="tried") == 1
    assert value(meters, "suspect_nodes") == 1
    states = {
        state: value(meters, "maintenance_nodes", state=state) for state in ("emptying", "empty", "blocked")
    }
    assert states == {"emptying": 1, "empty": 1, "blocked": 1}
    assert value(meters, "cache_lag_seconds", kind="Pod") == 3.5
    assert value(meters, "queue_depth") == 7


def test_a_configuration_that_is_kept_out_shows_until_a_good_one_is_there():
    meters = Metrics()
    meters.configuration_refused("why")
    assert value(meters, "configuration_reload_success") == 0
    meters.configured(Policy(dry_run=True))
    assert value(meters, "configuration_reload_success") == 1
    assert value(meters, "dry_run") == 1


def test_a_halted_namespace_is_no_halt_of_the_daemon():
    """The metric of the namespace is removed when its halt ends."""
    meters = Metrics()
    held = Halt(HaltReason.NAMESPACE_FAILING, NOW, "its moves fail", "by itself", namespace="shop")
    meters.halted((held,))
    assert value(meters, "namespace_halted", namespace="shop") == 1
    assert {value(meters, "halted", reason=reason) for reason in CLUSTER_WIDE} == {0}
    meters.halted(())
    assert value(meters, "namespace_halted", namespace="shop") is None


def of_workload(name, count=1, *, ok=True, namespace="shop", **status):
    """Finished migrations of a Deployment, each with its own uid."""
    workload = ControllerReference("apps/v1", "Deployment", name, f"uid-{name}")
    done = finished(ok=ok, workload=workload, **status)
    return [
        msgspec.structs.replace(done, uid=f"{namespace}/{name}/{ok}/{number}", namespace=namespace)
        for number in range(count)
    ]


def workload_series(meters):
    """All series by workload, with their values."""
    return {
        (sample.name.removeprefix("rescheduler_workload_"), *sample.labels.values()): sample.value
        for family in meters.registry.collect()
        if family.name.startswith("rescheduler_workload_")
        for sample in family.samples
    }


def leading(workload_metrics):
    meters = Metrics()
    meters.leads(True)
    meters.configured(Policy(workload_metrics=workload_metrics))
    return meters


def test_workloads_with_the_most_migrations_have_series_and_all_others_are_one():
    meters = leading(2)
    for each in [*of_workload("web", 3), *of_workload("web", ok=False), *of_workload("cart", 2)]:
        meters.migration_changed(None, each)
    for each in [*of_workload("api"), *of_workload("api", namespace="bank")]:
        meters.migration_changed(None, each)
    found = workload_series(meters)
    counts = {key: value for key, value in found.items() if key[0] == "migrations"}
    assert counts == {
        ("migrations", "shop", "Deployment", "web", "Completed"): 3,
        ("migrations", "shop", "Deployment", "web", "Failed"): 1,
        ("migrations", "shop", "Deployment", "cart", "Completed"): 2,
        ("migrations", "", "", "other", "Completed"): 2,
    }


@given(
    names=st.lists(st.text(max_size=8), max_size=60),
    most=st.integers(0, 5),
    gone=st.sets(st.integers(0, 60)),
)
def test_the_number_of_series_by_workload_is_bounded_whatever_happens(names, most, gone):
    """Any user may create workloads, and forge what a status says; deleted PodMigrations don't count."""
    meters = leading(most)
    done = [
        msgspec.structs.replace(each, uid=str(number))
        for number, name in enumerate(names)
        for each in of_workload(name, ok=number % 2 == 0)
    ]
    for each in done:
        meters.migration_changed(None, each)
    for number in gone:
        if number < len(done):
            meters.migration_changed(done[number], None)
    found = workload_series(meters)
    assert len({key[1:4] for key in found}) <= (most + 1 if most else 0)
    left = len(done) - len([number for number in gone if number < len(done)])
    assert sum(count for key, count in found.items() if key[0] == "migrations") == (left if most else 0)
    meters.text()


def test_series_by_workload_are_off_unless_configured_and_only_of_the_leader():
    """Otherwise the replica that stands by would count everything twice."""
    meters = leading(0)
    meters.migration_changed(None, *of_workload("web"))
    assert workload_series(meters) == {}
    meters.configured(Policy(workload_metrics=1))
    assert workload_series(meters)
    meters.leads(False)
    assert workload_series(meters) == {}


def test_seconds_without_a_ready_pod_are_added_up_by_workload():
    handed_over = MigrationCondition("HandedOver", "True", NOW, "Evicted")
    meters = leading(1)
    lossy = {"handover": Handover.EVICT, "conditions": (handed_over,)}
    for each in of_workload("db", 2):
        status = msgspec.structs.replace(each.status, **lossy)
        meters.migration_changed(None, msgspec.structs.replace(each, status=status))
    assert workload_series(meters)["ready_seconds_lost", "shop", "Deployment", "db"] == 80


def test_a_migration_that_never_started_has_an_unknown_workload():
    meters = leading(1)
    refused = msgspec.structs.replace(
        finished(ok=False), status=MigrationStatus(phase=MigrationPhase.FAILED, finished_at=NOW)
    )
    meters.migration_changed(None, refused)
    assert ("migrations", "shop", "", "unknown", "Failed") in workload_series(meters)
