"""Metrics: what happens is counted once, and the number of series does not grow with the cluster."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from rescheduler.api.daemon_status import FailingPod, Halt, HaltReason, NodeInMaintenance, SuspectNode
from rescheduler.api.podmigration import Handover, MigrationCondition
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


def test_a_refusal_that_no_longer_holds_is_no_longer_told():
    meters = Metrics()
    meters.checked(check(Plan(taken_at_s=0, refused_counts={"JobPod": 3})))
    meters.checked(check(Plan(taken_at_s=0, refused_counts={"NoTarget": 1})))
    assert value(meters, "refused_pods", reason="JobPod") is None


def test_loads_are_told_as_extremes_and_mean_not_node_by_node():
    nodes = tuple(
        NodeLoadChange(f"n-{n}", {"cpu": load}, {"cpu": 50.0}) for n, load in enumerate((20.0, 30.0, 85.0))
    )
    meters = Metrics()
    meters.checked(check(Plan(taken_at_s=0, nodes=nodes)))
    told = {
        kind: value(meters, "node_load_ratio", resource="cpu", statistic=kind)
        for kind in ("min", "mean", "max")
    }
    assert told == {"min": 0.2, "mean": pytest.approx(0.45), "max": 0.85}
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


def test_no_ready_second_is_lost_with_a_copy_and_with_an_eviction_until_the_successor_is_ready():
    meters = Metrics()
    ready = MigrationCondition("CopyReady", "True", NOW + timedelta(seconds=10), "Ready")
    handed_over = MigrationCondition("HandedOver", "True", NOW + timedelta(seconds=25), "Evicted")
    meters.migration_changed(migration(MigrationStep.RELEASING), finished(conditions=(ready, handed_over)))
    assert value(meters, "ready_seconds_lost_total", handover="Adopt") == 0
    meters.migration_changed(
        migration(MigrationStep.RELEASING), finished(Handover.EVICT, conditions=(handed_over,))
    )
    assert value(meters, "ready_seconds_lost_total", handover="Evict") == 15


def test_words_that_people_write_into_migrations_make_no_series():
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


def test_the_state_of_the_cluster_is_told_in_numbers():
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


def test_a_namespace_that_is_held_back_is_no_halt_of_the_whole_and_gone_when_it_is_over():
    meters = Metrics()
    held = Halt(HaltReason.NAMESPACE_FAILING, NOW, "its moves fail", "by itself", namespace="shop")
    meters.halted((held,))
    assert value(meters, "namespace_halted", namespace="shop") == 1
    assert {value(meters, "halted", reason=reason) for reason in CLUSTER_WIDE} == {0}
    meters.halted(())
    assert value(meters, "namespace_halted", namespace="shop") is None
