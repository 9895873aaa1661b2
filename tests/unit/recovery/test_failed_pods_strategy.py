"""FailedPods: failing pods get another node, as often as their owner allows."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.api.podmigration import Handover, decode_migration
from rescheduler.api.well_known_names import FAILED_ATTEMPTS_ANNOTATION
from rescheduler.config.move_limits import Window
from rescheduler.config.policy import DefaultRetries, Policy, ZeroBudget
from rescheduler.config.policy import FailedPodsPolicy as Terms
from rescheduler.planner.plan_builder import build_plan, validate_move
from rescheduler.planner.reasons import Reason
from rescheduler.recovery.attempt_ledger import AttemptLedger, FailedAttempt, ReplicaLineage
from rescheduler.recovery.failed_pods_strategy import FailedPods
from rescheduler.strategies.load_balancing import LoadBalancing
from rescheduler.strategies.node_maintenance import NodeMaintenance
from tests.battery.pod_constraints import apart
from tests.building import NOW, cluster
from tests.failing_pods import ago, container, crashing, failed, lost, status_of, tried_on
from tests.scripted_strategies import ScriptedStrategy

THREE = {"scheduling-retries": "3"}
WEB = "uid-of-deployment-shop-web"
POLICY = Policy()
GOING = "2026-03-02T11:00:00Z"


def planned(made, *others, policy=POLICY, **more):
    return build_plan(made.snapshot(), policy, [FailedPods(), *others], **more)


def ways(found):
    return [(move.pod.removeprefix("shop/"), move.source, move.target) for move in found.moves]


def refused(found):
    return {each.subject.removeprefix("shop/"): each.reason for each in found.refused}


def shop(*nodes, on="bad", tried=(), retries="3", **parts):
    """A Deployment with one pod, which crashes on the node `bad`, with these tries on record."""
    written = {}
    if tried:
        tries = [FailedAttempt(int(NOW) - 600, node, f"pod-on-{node}") for node in tried[:-1]]
        here = FailedAttempt(int(NOW) - 600, tried[-1], "uid-of-pod-shop-web-1-0")
        written = {
            FAILED_ATTEMPTS_ANNOTATION: AttemptLedger({"web-1-0": ReplicaLineage((*tries, here))}).written(
                WEB
            )
        }
    made = cluster().nodes(*nodes)
    marks = {"scheduling-retries": retries, **written}
    return made.deployment("shop/web", on=[on], annotations=marks, **{**crashing(), **parts})


def test_a_crashing_pod_goes_to_another_node():
    found = planned(shop("bad", "good"))
    assert ways(found) == [("web-1-0", "bad", "good")]
    (move,) = found.moves
    assert (move.strategy, move.handover) == ("FailedPods", Handover.ADOPT)
    assert move.reason == "app: CrashLoopBackOff, 5 restarts, exit code 1, since 11:45 UTC; attempt 1 of 3"


def test_it_is_not_touched_unasked():
    made = cluster().nodes("bad", "good").deployment("shop/web", on=["bad"], **crashing())
    found = planned(made)
    assert found.moves == ()
    assert found.refused == ()


def test_not_to_a_node_that_was_tried():
    made = shop("bad", "worse", "good", on="worse", tried=["bad", "worse"])
    (move,) = planned(made).moves
    assert move.target == "good"
    assert move.reason.endswith("attempt 2 of 3; not on bad")


def test_rather_to_where_a_sibling_failed_than_to_where_it_failed_itself():
    lines = {
        "web-1-0": ReplicaLineage(
            (FailedAttempt(9, "bad", "p"), FailedAttempt(9, "worse", "uid-of-pod-shop-web-1-0"))
        ),
        "web-1-7": ReplicaLineage((FailedAttempt(9, "dubious", "q"),)),
    }
    marks = {**THREE, FAILED_ATTEMPTS_ANNOTATION: AttemptLedger(lines).written(WEB)}
    made = (
        cluster().nodes("bad", "worse", "dubious", cpu="4").deployment("shop/large", on=["dubious"], cpu="3")
    )
    made.deployment("shop/web", on=["worse"], annotations=marks, **crashing())
    assert ways(planned(made)) == [("web-1-0", "worse", "dubious")]


def test_when_all_nodes_were_tried_the_list_counts_as_empty():
    made = shop("bad", "worse", on="worse", tried=["bad", "worse"])
    (move,) = planned(made).moves
    assert move.target == "bad"
    assert move.reason.endswith("attempt 2 of 3; it failed on all other nodes, so they are tried again")


def test_nodes_that_can_not_take_it_don_t_count_as_untried():
    made = shop("bad", "worse", on="worse", tried=["bad", "worse"]).node("small", cpu="10m")
    made.node("closed", cordoned=True)
    assert ways(planned(made)) == [("web-1-0", "worse", "bad")]


def test_when_its_tries_are_used_up_it_stays_and_that_is_said():
    end = ReplicaLineage((FailedAttempt(5, "a", "p"),), FailedAttempt(9, "bad", "uid-of-pod-shop-web-1-0"))
    marks = {
        "scheduling-retries": "1",
        FAILED_ATTEMPTS_ANNOTATION: AttemptLedger({"web-1-0": end}).written(WEB),
    }
    made = cluster().nodes("bad", "good").deployment("shop/web", on=["bad"], annotations=marks, **crashing())
    found = planned(made)
    assert found.moves == ()
    (rejection,) = found.refused
    assert rejection.reason == Reason.GAVE_UP
    assert "no attempts left (1 of 1; failed on a, bad): it stays where it is" in rejection.detail


def test_a_pod_of_any_age_is_kept_off_the_nodes_that_it_failed_on():
    made = shop("bad", "worse", "good", on="worse", tried=["bad", "worse"], created="2025-01-01T00:00:00Z")
    assert ways(planned(made)) == [("web-1-0", "worse", "good")]


def test_a_malformed_annotation_is_said():
    found = planned(shop("bad", "good", retries="often"))
    assert found.moves == ()
    assert refused(found) == {"web-1-0": Reason.RETRIES_MALFORMED}


@pytest.mark.parametrize("text", ["", "{", "null", '{"v":1,"of":"' + WEB + '","lines":7}'])
def test_a_malformed_ledger_moves_no_pod_wrongly_and_stops_no_recovery(text):
    marks = {**THREE, FAILED_ATTEMPTS_ANNOTATION: text}
    made = cluster().nodes("bad", "good").deployment("shop/web", on=["bad"], annotations=marks, **crashing())
    assert ways(planned(made)) == [("web-1-0", "bad", "good")]


def test_the_configuration_may_ask_for_whole_namespaces():
    terms = Terms(default_retries=(DefaultRetries(namespaces=("shop",), retries=2),))
    made = cluster().nodes("bad", "good").deployment("shop/web", on=["bad"], **crashing())
    made.deployment("park/web", on=["bad"], **crashing())
    found = planned(made, policy=Policy(failed_pods=terms))
    assert ways(found) == [("web-1-0", "bad", "good")]


def test_one_bad_replica_moves_and_its_healthy_siblings_stay():
    made = (
        cluster()
        .nodes("bad", "good", "fine")
        .deployment("shop/web", replicas=3, on=["fine"], annotations=THREE)
    )
    made.pod("shop/web-1-1", on="bad", owner="ReplicaSet/web-1", labels={"app": "web"}, **crashing())
    assert ways(planned(made)) == [("web-1-1", "bad", "good")]


# --- workloads of every kind


def test_a_pod_of_a_stateful_set_is_evicted_and_its_successor_kept_off():
    made = cluster().nodes("bad", "good").stateful_set("shop/db", on=["bad"], annotations=THREE, **crashing())
    (move,) = planned(made).moves
    assert (move.target, move.handover) == ("good", Handover.EVICT)


def test_without_steering_it_is_not_evicted():
    made = cluster().nodes("bad", "good").stateful_set("shop/db", on=["bad"], annotations=THREE, **crashing())
    assert refused(planned(made, steered=False)) == {"db-0": Reason.UNSTEERED}


def with_annotations(made, kind, name):
    for item in made.objects:
        if item["kind"] == kind and item["metadata"]["name"] == name:
            made.apply({**item, "metadata": {**item["metadata"], "annotations": THREE}})
            return made
    raise LookupError(name)


def test_a_pod_of_a_job_is_replaced_within_the_rules_of_its_job():
    retrying = {"spec": {"restartPolicy": "OnFailure"}, **crashing()}
    made = cluster().nodes("bad", "good").job("shop/sum", on=["bad"], **retrying)
    (move,) = planned(with_annotations(made, "Job", "sum")).moves
    assert (move.pod, move.handover) == ("shop/sum-0", Handover.EVICT)


def test_a_bare_pod_is_copied():
    made = cluster().nodes("bad", "good").pod("shop/x", on="bad", annotations=THREE, **crashing())
    (move,) = planned(made, policy=Policy(include_bare_pods=False)).moves
    assert (move.target, move.handover) == ("good", Handover.COPY)


def test_a_bare_pod_that_has_failed_is_copied_too_and_not_to_where_it_was():
    made = (
        cluster().nodes("bad", "good").pod("shop/x", on="bad", annotations=THREE, **failed(reason="Evicted"))
    )
    (move,) = planned(made).moves
    assert (move.source, move.target, move.handover) == ("bad", "good", Handover.COPY)
    assert validate_move(move, made.snapshot(), POLICY, urgent=True, recovering=True) is None
    assert refused(planned(made.node("good", cordoned=True))) == {"x": Reason.NO_TARGET}


def test_one_that_has_done_its_work_is_not():
    parts = failed(exit_code=0) | {"phase": "Succeeded"}
    parts["pod_status"]["phase"] = "Succeeded"
    made = cluster().nodes("bad", "good").pod("shop/x", on="bad", annotations=THREE, **parts)
    assert planned(made).moves == ()


def test_a_pod_of_a_daemon_set_is_not_moved():
    made = cluster().nodes("bad", "good").daemon_set("shop/proxy", on=["bad", "good"], **crashing())
    found = planned(with_annotations(made, "DaemonSet", "proxy"))
    assert found.moves == ()
    assert refused(found) == {"proxy-bad": Reason.NO_MOVE_NEEDED, "proxy-good": Reason.NO_MOVE_NEEDED}


def test_a_failed_pod_that_its_controller_replaces_is_not_moved():
    made = shop("bad", "good", **failed(reason="Evicted"))
    found = planned(made)
    assert found.moves == ()
    assert refused(found) == {"web-1-0": Reason.NO_MOVE_NEEDED}


# --- lost nodes


def test_a_pod_on_a_lost_node_is_copied_elsewhere():
    made = (
        cluster().node("gone", **lost()).node("good").deployment("shop/web", on=["gone"], annotations=THREE)
    )
    (move,) = planned(made).moves
    assert (move.target, move.handover) == ("good", Handover.ADOPT)
    assert move.reason.startswith("node gone is unreachable, since 11:00 UTC; attempt 1 of 3")


def test_what_is_stuck_there_is_said():
    made = cluster().node("gone", **lost()).node("good")
    made.stateful_set("shop/db", on=["gone"], annotations=THREE, deleted=GOING)
    found = planned(made)
    assert found.moves == ()
    assert refused(found) == {"db-0": Reason.NODE_LOST}


# --- what protects pods all the same, and what does not


NEVER = [
    pytest.param({"labels": {"scheduler.alpha.kubernetes.io/rescheduling": "disabled"}}, Reason.OPTED_OUT),
    pytest.param({"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, Reason.DO_NOT_DISRUPT),
    pytest.param(
        {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}, Reason.NOT_SAFE_TO_EVICT
    ),
    pytest.param({"spec": {"priorityClassName": "system-node-critical"}}, Reason.SYSTEM_POD),
    pytest.param({"spec": {"schedulerName": "other"}}, Reason.OTHER_SCHEDULER),
    pytest.param({"volumes": [{"name": "d", "hostPath": {"path": "/d"}}]}, Reason.LOCAL_STORAGE),
]


@pytest.mark.parametrize(("parts", "reason"), NEVER, ids=[each.values[1] for each in NEVER])
def test_what_must_never_be_moved_is_not(parts, reason):
    labels = {"app": "web", **parts.pop("labels", {})} if "labels" in parts else {"app": "web"}
    made = shop("bad", "good").pod(
        "shop/web-1-0", on="bad", owner="ReplicaSet/web-1", labels=labels, **{**crashing(), **parts}
    )
    found = planned(made)
    assert found.moves == ()
    assert refused(found) == {"web-1-0": reason}


def test_excluded_namespaces_are_excluded():
    made = (
        cluster()
        .nodes("bad", "good")
        .deployment("kube-system/dns", on=["bad"], annotations=THREE, **crashing())
    )
    assert refused(planned(made)) == {"kube-system/dns-1-0": Reason.EXCLUDED_NAMESPACE}


def test_a_young_pod_in_an_empty_dir_of_a_single_replica_may_go():
    """The owner asked for it; and what a pod that keeps failing has there is of no use."""
    made = (
        cluster()
        .nodes("bad", "good")
        .stateful_set(
            "shop/db",
            on=["bad"],
            annotations=THREE,
            created=ago(60),
            volumes=[{"name": "tmp", "emptyDir": {}}],
            **crashing(),
        )
    )
    assert ways(planned(made)) == [("db-0", "bad", "good")]


def test_windows_are_for_pods_that_run():
    closed = Policy(windows=(Window(from_=14 * 60, to=15 * 60),))
    made = shop("bad", "good").deployment("shop/other", replicas=4, on=["bad"], cpu="1")
    found = planned(made, LoadBalancing(), policy=closed)
    assert ways(found) == [("web-1-0", "bad", "good")]
    assert refused(found)[""] == Reason.OUTSIDE_WINDOW


def test_the_number_of_moves_per_check_holds():
    made = cluster().nodes("bad", "good")
    for name in ("a", "b", "c"):
        made.deployment(f"shop/{name}", on=["bad"], annotations=THREE, **crashing())
    found = planned(made, policy=Policy(max_reschedule_pods=2))
    assert [move.pod for move in found.moves] == ["shop/a-1-0", "shop/b-1-0"]


def test_a_budget_that_lacks_the_failing_pod_does_not_keep_it():
    """The copy counts before the source goes."""
    made = shop("bad", "good").budget("shop/web", selector={"app": "web"}, allowed=0, healthy=0, desired=1)
    assert ways(planned(made)) == [("web-1-0", "bad", "good")]
    never = planned(made, policy=Policy(move_under_zero_budget=ZeroBudget.NEVER))
    assert refused(never) == {"web-1-0": Reason.BUDGET_SPENT}


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        pytest.param(
            {}, {"db-0": Reason.BUDGET_SPENT}, id="the budget wants more healthy pods than there are"
        ),
        pytest.param(
            {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, {}, id="the budget gives up unhealthy pods"
        ),
    ],
)
def test_a_pod_that_must_be_evicted_is_subject_to_its_budget(policy, kept):
    made = cluster().nodes("bad", "good").stateful_set("shop/db", on=["bad"], annotations=THREE, **crashing())
    made.budget("shop/db", selector={"app": "db"}, allowed=0, healthy=0, desired=1, spec=policy)
    assert refused(planned(made)) == kept


def test_a_rollout_that_is_stuck_on_it_does_not_keep_it():
    made = shop("bad", "good")
    made.deployment(
        "shop/web", replicas=2, on=["bad"], annotations=THREE, status={"updatedReplicas": 1}, **crashing()
    )
    assert {move.handover for move in planned(made).moves} == {Handover.EVICT}


def test_siblings_are_kept_apart_by_their_constraints():
    made = cluster().nodes("bad", "good", "taken")
    made.deployment("shop/web", replicas=2, on=["bad", "taken"], annotations=THREE, pod_spec=apart("web"))
    alone = {"owner": "ReplicaSet/web-1", "labels": {"app": "web"}, "spec": apart("web")}
    made.pod("shop/web-1-0", on="bad", **alone, **crashing())
    assert ways(planned(made)) == [("web-1-0", "bad", "good")]


def test_where_there_is_no_place_that_is_said():
    found = planned(shop("bad").node("full", cpu="10m"))
    assert refused(found) == {"web-1-0": Reason.NO_TARGET}


# --- beside the others


def test_other_strategies_leave_it_alone():
    made = shop("bad", "good", cpu="4", retries="3")
    scripted = ScriptedStrategy({"shop/web-1-0": "good"})
    found = build_plan(made.snapshot(), POLICY, [scripted])
    assert found.moves == ()
    assert refused(found) == {"web-1-0": Reason.FAILING}


def test_that_they_do_is_not_said_where_more_is():
    made = shop("bad").node("full", cpu="10m")
    found = planned(made, ScriptedStrategy({"shop/web-1-0": "full"}))
    assert [each.reason for each in found.refused] == [Reason.NO_TARGET]


def test_maintenance_empties_its_node_all_the_same():
    made = shop("good", "fine").node("bad", labels={"scheduler.alpha.kubernetes.io/maintenance": "true"})
    found = build_plan(made.snapshot(), POLICY, [NodeMaintenance()])
    assert [move.source for move in found.moves] == ["bad"]


def test_a_pod_that_runs_again_by_the_time_is_left_where_it_is():
    (move,) = planned(shop("bad", "good")).moves
    again = shop("bad", "good", **status_of(container(ready=True), ready=True)).snapshot()
    assert validate_move(move, shop("bad", "good").snapshot(), POLICY, urgent=True, recovering=True) is None
    rejection = validate_move(move, again, POLICY, urgent=True, recovering=True)
    assert rejection is not None
    assert rejection.reason == Reason.RECOVERED


def migration(pod, ago_s):
    return decode_migration(
        {
            "metadata": {"name": "m", "namespace": "shop", "creationTimestamp": ago(ago_s + 60)},
            "spec": {"pod": {"name": pod, "uid": f"uid-of-pod-shop-{pod}"}, "sourceNode": "bad"},
            "status": {"phase": "Failed", "finishedAt": ago(ago_s)},
        }
    )


def test_after_a_migration_that_was_no_try_it_waits_a_while():
    """The copy never ran, or its failure is not on record yet: else it would be tried too often."""
    made = shop("bad", "good", tried=["bad"])
    made.state.apply_migration(migration("web-1-0", 60))
    assert refused(planned(made)) == {"web-1-0": Reason.COOLING_DOWN}
    made.state.apply_migration(migration("web-1-0", 301))
    assert len(planned(made).moves) == 1


def test_a_pod_that_was_moved_here_a_moment_ago_and_fails_here_too_goes_on_at_once():
    labels = {"app": "web", "scheduler.alpha.kubernetes.io/migration-status": "completed"}
    made = shop("bad", "good").pod(
        "shop/web-1-0", on="bad", owner="ReplicaSet/web-1", labels=labels, **crashing()
    )
    made.state.apply_migration(migration("web-1-0", 60))
    assert len(planned(made).moves) == 1


def test_after_a_copy_that_failed_and_is_on_record_it_goes_on_at_once():
    tries = (
        FailedAttempt(int(NOW) - 600, "bad", "uid-of-pod-shop-web-1-0"),
        FailedAttempt(int(NOW) - 60, "worse", "the-copy"),
    )
    marks = {
        **THREE,
        FAILED_ATTEMPTS_ANNOTATION: AttemptLedger({"web-1-0": ReplicaLineage(tries)}).written(WEB),
    }
    made = (
        cluster()
        .nodes("bad", "worse", "good")
        .deployment("shop/web", on=["bad"], annotations=marks, **crashing())
    )
    made.state.apply_migration(migration("web-1-0", 60))
    (move,) = planned(made).moves
    assert move.target == "good"
    assert "attempt 2 of 3; not on worse" in move.reason


# --- suspect nodes


def suspicious(made, node, *keys):
    for key in keys:
        tried_on(made, key, node, on="fine")
    return made


def test_a_node_on_which_several_workloads_failed_is_the_last_place_to_send_a_pod():
    made = suspicious(shop("bad", "dubious", "fine"), "dubious", "shop/a", "shop/b", "bank/c")
    made.deployment("shop/large", on=["fine"], cpu="6")
    assert ways(planned(made)) == [("web-1-0", "bad", "fine")]
    made.node("fine", cordoned=True)
    assert ways(planned(made)) == [("web-1-0", "bad", "dubious")]


def test_for_every_strategy():
    made = suspicious(cluster().nodes("a", "dubious", "fine"), "dubious", "shop/x", "shop/y", "bank/z")
    made.deployment("shop/web", on=["a"])
    seen = []

    class RecordsTargets:
        name, urgent = "RecordsTargets", False

        def propose(self, view):
            row = view.snapshot.pods.row["shop/web-1-0"]
            seen.append(([*view.targets(row)], [view.may_go(row, node) for node in range(3)]))
            yield from ()

    build_plan(made.snapshot(), POLICY, [RecordsTargets()])
    assert seen == [([False, False, True], [False, False, True])]


def test_its_siblings_are_not_sent_to_where_it_fails():
    made = (
        cluster()
        .nodes("bad", "busy", "fine")
        .deployment("shop/web", replicas=2, on=["busy"], annotations=THREE)
    )
    made.pod("shop/web-1-0", on="bad", owner="ReplicaSet/web-1", labels={"app": "web"}, **crashing())
    made.node("busy", labels={"scheduler.alpha.kubernetes.io/maintenance": "true"}).deployment(
        "shop/big", on=["fine"], cpu="6"
    )
    found = planned(made, NodeMaintenance())
    assert {move.target for move in found.moves} == {"fine"}


# --- in any order, any number


@settings(max_examples=25)
@given(st.data())
def test_the_same_cluster_gives_the_same_plan_and_avoids_failed_nodes(data):
    nodes = ["a", "b", "c", "d"]
    made = cluster().nodes(*nodes, cpu="4")
    tried = {}
    for name in data.draw(st.lists(st.sampled_from("uvwxyz"), unique=True)):
        node = data.draw(st.sampled_from(nodes))
        others = data.draw(st.lists(st.sampled_from(nodes), unique=True, max_size=3))
        tries = tuple(FailedAttempt(9, each, f"{name}-{each}") for each in others)
        marks = {
            "scheduling-retries": str(data.draw(st.integers(0, 4))),
            FAILED_ATTEMPTS_ANNOTATION: AttemptLedger(
                {
                    f"{name}-1-0": ReplicaLineage(
                        (*tries, FailedAttempt(9, node, f"uid-of-pod-shop-{name}-1-0"))
                    )
                }
            ).written(f"uid-of-deployment-shop-{name}"),
        }
        parts = data.draw(st.sampled_from([crashing(), status_of(container()), {}]))
        made.deployment(f"shop/{name}", on=[node], annotations=marks, cpu="1", **parts)
        tried[f"shop/{name}-1-0"] = (marks, {*others, node}, parts)
    policy = Policy(max_concurrent_per_node=10, failed_pods=Terms(stuck_after=timedelta(minutes=1)))
    found = planned(made, policy=policy)
    assert found == planned(made, policy=policy)
    for move in found.moves:
        marks, nodes_tried, parts = tried[move.pod]
        assert parts == crashing()
        assert int(marks["scheduling-retries"]) > 0
        assert move.target not in nodes_tried or "so they are tried again" in move.reason
