"""Which pods may be moved: each protection, and what lifts it."""

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from kubevalues import parse_selector
from rescheduler.api.podmigration import Handover
from rescheduler.api.well_known_names import MIGRATION_LABELS
from rescheduler.config.policy import Policy, ZeroBudget
from rescheduler.planner.protections.eligibility import PROTECTION_CHECKS, Eligibility
from rescheduler.planner.reasons import Reason
from tests.building import LONG_AGO, NOW, ClusterBuilder, cluster, merged

POD = "shop/web-1-0"
POLICY = Policy()


def reasons(
    built: ClusterBuilder,
    policy: Policy = POLICY,
    pod: str = POD,
    *,
    urgent: bool = False,
    steered: bool = True,
) -> list[str]:
    snapshot = built.snapshot()
    row = snapshot.pods.row[pod]
    eligibility = Eligibility(snapshot, policy, urgent=urgent, steered=steered)
    found = [str(each.reason) for each in eligibility.refusals(row)]
    first = eligibility.refusal(row)
    assert (first.reason if first else None) == (found[0] if found else None)
    return found


def policy(**settings) -> Policy:
    return dataclasses.replace(POLICY, **settings)


def two_nodes() -> ClusterBuilder:
    return cluster().nodes("a", "b")


def web(**parts) -> ClusterBuilder:
    """A Deployment of two, one pod on each node: movable unless a part says otherwise."""
    return two_nodes().deployment("shop/web", replicas=2, on=["a", "b"], **parts)


def of_template(spec) -> ClusterBuilder:
    built = two_nodes()
    return built.deployment(
        "shop/web", replicas=2, on=["a", "b"], strategy=None, spec={"template": {"spec": spec}}
    )


def one_pod(**parts) -> ClusterBuilder:
    return two_nodes().pod(POD, **{"on": "a", **parts})


def at(seconds_ago: float) -> str:
    return datetime.fromtimestamp(NOW - seconds_ago, UTC).isoformat()


def readiness(status: str, changed_s_ago: float) -> dict[str, object]:
    ready = {"type": "Ready", "status": status, "lastTransitionTime": at(changed_s_ago)}
    return {"conditions": [ready]}


@pytest.mark.parametrize("changed_s_ago", [300, -3600], ids=["long ago", "by a wrong clock"])
def test_a_pod_whose_readiness_changed(changed_s_ago):
    assert reasons(one_pod(status=readiness("True", changed_s_ago))) == []


def test_a_pod_of_an_ordinary_deployment_may_be_moved():
    assert reasons(web()) == []


PROTECTED: list[tuple[Reason, Callable[[], ClusterBuilder]]] = [
    (Reason.MIRROR_POD, lambda: one_pod(annotations={"kubernetes.io/config.mirror": "x"})),
    (Reason.MIRROR_POD, lambda: one_pod(owner="Node/a")),
    (Reason.FINISHED, lambda: one_pod(phase="Succeeded")),
    (Reason.FINISHED, lambda: one_pod(phase="Failed")),
    (Reason.TERMINATING, lambda: one_pod(deleted=at(0))),
    (Reason.UNSCHEDULED, lambda: one_pod(on="")),
    (Reason.NODE_UNKNOWN, lambda: one_pod(on="gone")),
    (Reason.DAEMON_SET_POD, lambda: one_pod(owner="DaemonSet/web")),
    (Reason.OWNER_UNKNOWN, lambda: one_pod(owner="Rocket/web")),
    (Reason.OPTED_OUT, lambda: web(labels={"scheduler.alpha.kubernetes.io/rescheduling": "disabled"})),
    (Reason.GATED, lambda: one_pod(spec={"schedulingGates": [{"name": "example.com/wait"}]})),
    (Reason.RESOURCE_CLAIMS, lambda: one_pod(spec={"resourceClaims": [{"name": "gpu"}]})),
    (Reason.SCHEDULING_GROUP, lambda: one_pod(spec={"schedulingGroup": {"podGroupName": "gang"}})),
    (Reason.OTHER_SCHEDULER, lambda: one_pod(spec={"schedulerName": "volcano"})),
    (Reason.NODE_NAME_IN_TEMPLATE, lambda: of_template({"nodeName": "a"})),
    (Reason.SYSTEM_POD, lambda: one_pod(spec={"priorityClassName": "system-node-critical"})),
    (Reason.SYSTEM_POD, lambda: one_pod(spec={"priorityClassName": "system-cluster-critical"})),
    (Reason.SYSTEM_POD, lambda: one_pod(priority=2_000_000_500)),
    (Reason.TOO_YOUNG, lambda: one_pod(created=at(299))),
    (Reason.TOO_YOUNG, lambda: one_pod(status=readiness("True", 299))),
    (Reason.TOO_YOUNG, lambda: one_pod(status=readiness("False", 299))),
    (
        Reason.COOLING_DOWN,
        lambda: one_pod(annotations={"scheduler.alpha.kubernetes.io/migration-time": at(1799)}),
    ),
    (Reason.MARKS_IN_TEMPLATE, lambda: web(spec={"selector": {"matchLabels": {MIGRATION_LABELS[0]: "x"}}})),
    (
        Reason.MARKS_IN_TEMPLATE,
        lambda: web(spec={"template": {"metadata": {"labels": {MIGRATION_LABELS[1]: "completed"}}}}),
    ),
    (
        Reason.NOT_SAFE_TO_EVICT,
        lambda: one_pod(annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}),
    ),
    (Reason.DO_NOT_DISRUPT, lambda: one_pod(annotations={"karpenter.sh/do-not-disrupt": "true"})),
    (Reason.LOCAL_STORAGE, lambda: web(volumes=[{"name": "d", "hostPath": {"path": "/data"}}])),
    (Reason.LOCAL_STORAGE, lambda: one_pod(volumes=[{"name": "d", "emptyDir": {}}])),
    (Reason.VOLUME_UNKNOWN, lambda: web(claims=["lost"])),
    (Reason.BARE_POD, lambda: one_pod(spec={"restartPolicy": "Never"})),
    (Reason.JOB_POD, lambda: two_nodes().job("shop/web-1", on=["a", "b"])),
    (Reason.OWN_POD, lambda: web(labels={"app.kubernetes.io/name": "rescheduler"})),
]


@pytest.mark.parametrize(
    ("reason", "build"), [pytest.param(*each, id=f"{each[0]}-{at}") for at, each in enumerate(PROTECTED)]
)
def test_a_protected_pod_is_not_moved(reason, build):
    assert reasons(build()) == [reason]


EXEMPT_IN_MAINTENANCE = {Reason.OWN_POD, Reason.COOLING_DOWN, Reason.TOO_YOUNG}


@pytest.mark.parametrize(
    ("reason", "build"), [pytest.param(*each, id=f"{each[0]}-{at}") for at, each in enumerate(PROTECTED)]
)
def test_nor_does_maintenance_except_for_our_own_and_those_that_came_lately(reason, build):
    found = reasons(build(), urgent=True)
    assert found == ([] if reason in EXEMPT_IN_MAINTENANCE else [reason])


LIFTED = [
    pytest.param(lambda: one_pod(created=at(300)), {}, id="as old as minPodAge"),
    pytest.param(
        lambda: one_pod(created=at(1)), {"min_pod_age": timedelta()}, id="young, where age does not matter"
    ),
    pytest.param(
        lambda: one_pod(annotations={"scheduler.alpha.kubernetes.io/migration-time": at(1800)}),
        {},
        id="moved as long ago as podCooldown",
    ),
    pytest.param(
        lambda: one_pod(annotations={"scheduler.alpha.kubernetes.io/migration-time": "tomorrow"}),
        {},
        id="moved at a time that is none",
    ),
    pytest.param(
        lambda: one_pod(labels={"scheduler.alpha.kubernetes.io/migration-status": "completed"}),
        {},
        id="whose migration is completed",
    ),
    pytest.param(
        lambda: one_pod(annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}),
        {},
        id="safe to evict",
    ),
    pytest.param(
        lambda: one_pod(labels={"scheduler.alpha.kubernetes.io/rescheduling": "enabled"}), {}, id="opted in"
    ),
    pytest.param(
        lambda: one_pod(spec={"schedulerName": "volcano"}),
        {"known_schedulers": ("volcano",)},
        id="known scheduler",
    ),
    pytest.param(
        lambda: web(volumes=[{"name": "d", "emptyDir": {}}]), {}, id="emptyDir of a ReplicaSet's pod"
    ),
    pytest.param(
        lambda: web(volumes=[{"name": "d", "hostPath": {"path": "/data"}}]),
        {"include_local_storage": True},
        id="local data that may be lost",
    ),
    pytest.param(
        lambda: two_nodes().job("shop/web-1", on=["a", "b"]), {"include_jobs": True}, id="Jobs are included"
    ),
    pytest.param(
        lambda: one_pod(owner="Rocket/web"),
        {"handovers": {"Rocket.apps": Handover.EVICT}, "min_replicas_for_evict": 1},
        id="an unknown owner with a handover",
    ),
    pytest.param(lambda: one_pod(priority=100), {"max_priority": 100}, id="priority as high as maxPriority"),
]


@pytest.mark.parametrize(("build", "settings"), LIFTED)
def test_what_lifts_the_protection(build, settings):
    assert reasons(build(), policy(**settings)) == []


def cooled_by(urgent, **moves):
    known = {"recent_moves": {}, "failed_moves": {}} | moves
    snapshot = dataclasses.replace(web().snapshot(), **known)
    refusal = Eligibility(snapshot, POLICY, urgent=urgent).refusal(snapshot.pods.row[POD])
    assert refusal is None or refusal.reason == Reason.COOLING_DOWN
    return refusal and refusal.detail


def test_a_pod_moved_by_a_migration_that_is_finished_cools_down_too():
    lately = {"uid-of-pod-shop-web-1-0": NOW - 60.0}
    assert cooled_by(urgent=False, recent_moves=lately) == "its migration ended 1m ago; podCooldown is 30m"


def test_a_pod_that_was_moved_lately_leaves_a_node_in_maintenance_all_the_same():
    marked = one_pod(annotations={"scheduler.alpha.kubernetes.io/migration-time": at(1)})
    assert reasons(marked, urgent=True) == []
    assert cooled_by(urgent=True, recent_moves={"uid-of-pod-shop-web-1-0": NOW - 60.0}) is None


def test_one_that_could_not_be_moved_is_not_tried_again_at_once_even_in_maintenance():
    lately = {"uid-of-pod-shop-web-1-0": NOW - 60.0}
    reported = cooled_by(urgent=True, recent_moves=lately, failed_moves=lately)
    assert reported == "its migration failed 1m ago; podCooldown is 30m"


@pytest.mark.parametrize("status", ["pending", "in-progress"])
def test_a_mark_alone_does_not_say_that_a_pod_is_moving(status):
    """The PodMigration may have been removed by force, or the mark be forged."""
    labels = dict.fromkeys(MIGRATION_LABELS, "gone") | {MIGRATION_LABELS[1]: status}
    built = web(labels=labels)
    snapshot = built.snapshot()
    refusal = Eligibility(snapshot, POLICY, urgent=False).refusal(snapshot.pods.row[POD])
    assert refusal is None or refusal.reason != Reason.ALREADY_MOVING


def test_a_pod_that_a_migration_is_moving_now_stays():
    snapshot = dataclasses.replace(web().snapshot(), moving=frozenset({"uid-of-pod-shop-web-1-0"}))
    refusal = Eligibility(snapshot, POLICY, urgent=True).refusal(snapshot.pods.row[POD])
    assert refusal is not None
    assert refusal.reason == Reason.ALREADY_MOVING


@pytest.mark.parametrize(
    ("selector", "labels", "moves"),
    [
        pytest.param("rescheduling=enabled", {"rescheduling": "enabled"}, True, id="opted in"),
        pytest.param("rescheduling=enabled", {}, False, id="not opted in"),
        pytest.param("rescheduling!=off", {}, True, id="not opted out"),
        pytest.param("rescheduling!=off", {"rescheduling": "off"}, False, id="opted out"),
        pytest.param("kubernetes.io/metadata.name in (shop,bank)", {}, True, id="selected by its name"),
        pytest.param("", {"rescheduling": "off"}, True, id="no selector selects every namespace"),
    ],
)
@pytest.mark.parametrize("urgent", [False, True])
def test_namespaces_opt_in_and_out_by_their_labels(selector, labels, moves, urgent):
    selecting = policy(namespace_selector=parse_selector(selector))
    found = reasons(web().namespace("shop", **labels), selecting, urgent=urgent)
    assert found == ([] if moves else [Reason.NAMESPACE_NOT_SELECTED])


def test_a_namespace_with_unknown_labels_is_not_selected():
    """Else a saved cluster without namespaces, or a missing permission, would undo every opt-out."""
    selecting = policy(namespace_selector=parse_selector("rescheduling!=off"))
    snapshot = web().snapshot()
    refusal = Eligibility(snapshot, selecting, urgent=False).refusal(snapshot.pods.row[POD])
    assert refusal is not None
    assert refusal.detail == (
        "the labels of namespace shop are not known; namespaceSelector is rescheduling!=off"
    )


def test_maintenance_that_includes_system_pods_empties_nodes_of_all_namespaces():
    selecting = policy(
        namespace_selector=parse_selector("rescheduling=enabled"), maintenance_includes_system=True
    )
    assert reasons(web().namespace("shop"), selecting, urgent=True) == []
    assert reasons(web().namespace("shop"), selecting) == [Reason.NAMESPACE_NOT_SELECTED]


def test_excluded_pods_and_high_priorities_stay():
    excluded = policy(excluded_pod_selector=parse_selector("app=web"))
    assert reasons(web(), excluded, urgent=True) == [Reason.EXCLUDED_BY_SELECTOR]
    assert reasons(web(priority=101), policy(max_priority=100), urgent=True) == [Reason.PRIORITY_TOO_HIGH]


def test_bare_pods_stay_unless_included():
    assert reasons(one_pod(), policy(include_bare_pods=False), urgent=True) == [Reason.BARE_POD]
    assert reasons(one_pod()) == []


@pytest.mark.parametrize(
    ("key", "parts", "reason"),
    [
        pytest.param("kube-system/x", {}, Reason.EXCLUDED_NAMESPACE, id="excluded namespace"),
        pytest.param(
            "shop/x",
            {"spec": {"priorityClassName": "system-node-critical"}},
            Reason.SYSTEM_POD,
            id="system class",
        ),
    ],
)
def test_only_maintenance_moves_system_pods_and_only_if_configured(key, parts, reason):
    built = two_nodes().pod(key, on="a", **parts)
    includes = policy(maintenance_includes_system=True)
    assert reasons(built, includes, key) == [reason]
    assert reasons(built, POLICY, key, urgent=True) == [reason]
    assert reasons(built, includes, key, urgent=True) == []


def test_local_volumes_hold_their_pods():
    built = (
        web(claims=["data"])
        .claim("shop/data", volume="disk", modes=["ReadWriteMany"])
        .volume("disk", claim="shop/data", nodes=["a"], source={"local": {"path": "/mnt"}})
    )
    assert reasons(built) == [Reason.LOCAL_STORAGE]


def test_a_claim_whose_volume_is_not_known_holds_its_pod():
    built = web(claims=["data"]).claim("shop/data", volume="disk", modes=["ReadWriteMany"])
    assert reasons(built) == [Reason.VOLUME_UNKNOWN]


# --- budgets


def covered(allowed: int, **more) -> ClusterBuilder:
    return web().budget("shop/web", selector={"app": "web"}, allowed=allowed, **more)


@pytest.mark.parametrize(
    ("setting", "urgent", "moves"),
    [
        (ZeroBudget.NEVER, True, False),
        (ZeroBudget.MAINTENANCE, False, False),
        (ZeroBudget.MAINTENANCE, True, True),
        (ZeroBudget.ALWAYS, False, True),
    ],
)
def test_when_adopt_moves_under_a_budget_that_allows_nothing(setting, urgent, moves):
    found = reasons(covered(0), policy(move_under_zero_budget=setting), urgent=urgent)
    assert found == ([] if moves else [Reason.BUDGET_SPENT])


def test_a_budget_that_allows_disruptions_protects_no_pod():
    assert reasons(covered(1)) == []


def test_a_budget_of_another_namespace_or_other_labels_does_not_count():
    built = (
        web()
        .budget("other/web", selector={"app": "web"}, allowed=0)
        .budget("shop/api", selector={"app": "api"}, allowed=0)
        .budget("shop/nobody", allowed=0)
    )
    assert reasons(built) == []


def test_an_empty_selector_covers_the_whole_namespace():
    assert reasons(web().budget("shop/all", selector={}, allowed=0)) == [Reason.BUDGET_SPENT]


def test_a_budget_whose_status_is_out_of_date_allows_nothing():
    assert reasons(covered(3, status={"observedGeneration": 0})) == [Reason.BUDGET_SPENT]


def test_two_budgets_make_every_eviction_fail_whatever_they_allow():
    built = covered(5).budget("shop/second", selector={"app": "web"}, allowed=5)
    assert reasons(built, policy(move_under_zero_budget=ZeroBudget.ALWAYS), urgent=True) == [
        Reason.SEVERAL_BUDGETS
    ]


ALWAYS = policy(move_under_zero_budget=ZeroBudget.ALWAYS)


@pytest.mark.parametrize(
    ("healthy", "desired", "refused"),
    [
        pytest.param(2, 2, [], id="minAvailable 2 of 2: the copy allows one eviction"),
        pytest.param(
            2, 3, [Reason.BUDGET_UNSATISFIABLE, Reason.BUDGET_SPENT], id="minAvailable 3 of 2: never"
        ),
        pytest.param(1, 2, [Reason.BUDGET_SPENT], id="one is not healthy: not before it is"),
        pytest.param(1, 1, [], id="one is not healthy, but not needed"),
        pytest.param(0, 2, [Reason.BUDGET_SPENT], id="none is healthy"),
    ],
)
def test_a_copy_is_made_only_if_the_budget_then_allows_the_eviction(healthy, desired, refused):
    built = covered(0, healthy=healthy, desired=desired, expected=2)
    assert reasons(built, ALWAYS) == refused


def test_the_eviction_of_an_unready_pod_needs_one_healthy_pod_less():
    built = web(ready=False)
    covered = {"selector": {"app": "web"}, "allowed": 0, "expected": 2}
    assert reasons(built.budget("shop/web", **covered, healthy=1, desired=2), ALWAYS) == []
    assert reasons(built.budget("shop/web", **covered, healthy=0, desired=2), ALWAYS) == [Reason.BUDGET_SPENT]
    assert reasons(built.budget("shop/web", **covered, healthy=2, desired=3), ALWAYS) == []


def test_unready_siblings_that_may_move_at_the_same_time_count_with_their_copies():
    """Else replicas that fail on the same node would wait for each other for ever."""
    built = web(ready=False)
    built = built.budget("shop/web", selector={"app": "web"}, allowed=0, expected=2, healthy=0, desired=2)
    one, both = (dataclasses.replace(ALWAYS, max_concurrent_per_workload=count) for count in (1, 2))
    assert reasons(built, one) == [Reason.BUDGET_SPENT]
    assert reasons(built, both) == []
    ready = covered(0, healthy=1, desired=2, expected=2)
    assert reasons(ready, both) == [Reason.BUDGET_SPENT], "its sibling may be ready in a moment"


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"observedGeneration": 0}, id="out of date"),
        pytest.param(
            {"conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed"}]},
            id="not synced",
        ),
    ],
)
def test_counts_that_are_not_those_of_the_budget_now_refuse_nothing(status):
    assert reasons(covered(0, healthy=2, desired=3, expected=2, status=status), ALWAYS) == []


def test_a_replica_that_is_missing_now_may_meet_the_budget_soon():
    built = two_nodes().deployment("shop/web", replicas=3, on=["a", "b"])
    built = built.budget("shop/web", selector={"app": "web"}, allowed=0, healthy=2, desired=3, expected=2)
    assert reasons(built, ALWAYS) == [Reason.BUDGET_SPENT]


def test_all_workloads_under_a_budget_count_together():
    built = web().deployment("shop/api", replicas=2, on=["a", "b"])
    under = {"selector": {}, "allowed": 0, "healthy": 4, "expected": 4}
    assert reasons(built.budget("shop/all", **under, desired=4), ALWAYS) == []
    assert reasons(built.budget("shop/all", **under, desired=5), ALWAYS) == [
        Reason.BUDGET_UNSATISFIABLE,
        Reason.BUDGET_SPENT,
    ]


def test_a_bare_pod_is_not_copied_in_vain_either():
    built = one_pod(labels={"app": "web"})
    built = built.budget("shop/web", selector={"app": "web"}, allowed=0, healthy=1, desired=2, expected=1)
    assert reasons(built, ALWAYS) == [Reason.BUDGET_UNSATISFIABLE, Reason.BUDGET_SPENT]


def stateful(replicas: int = 2, **parts) -> ClusterBuilder:
    return two_nodes().stateful_set("shop/db", replicas=replicas, on=["a", "b"], **parts)


@pytest.mark.parametrize("setting", list(ZeroBudget))
def test_evict_always_needs_a_disruption(setting):
    built = stateful().budget("shop/db", selector={"app": "db"}, allowed=0)
    found = reasons(built, policy(move_under_zero_budget=setting), "shop/db-0", urgent=True)
    assert found == [Reason.BUDGET_SPENT]


def test_a_pod_that_is_not_ready_needs_none_where_enough_others_are():
    unready = stateful(ready=False)
    short = {"selector": {"app": "db"}, "allowed": 0, "desired": 2, "healthy": 1}
    assert reasons(unready.budget("shop/db", **short), pod="shop/db-0") == [Reason.BUDGET_SPENT]
    assert reasons(unready.budget("shop/db", **short | {"healthy": 2}), pod="shop/db-0") == []
    always = {"unhealthyPodEvictionPolicy": "AlwaysAllow"}
    assert reasons(unready.budget("shop/db", **short, spec=always), pod="shop/db-0") == []


@pytest.mark.parametrize("parts", [{}, {"strategy": {"type": "Recreate"}}], ids=["Adopt", "Evict"])
def test_a_pod_that_has_not_begun_to_run_is_asked_of_no_budget(parts):
    """Bound, but Pending: the API server evicts it whatever its budgets say, even several."""
    built = web(**parts).budget("shop/web", selector={"app": "web"}, allowed=0, desired=2, healthy=1)
    built.budget("shop/second", selector={"app": "web"}, allowed=0)
    starting = {"on": "a", "owner": "ReplicaSet/web-1", "labels": {"app": "web"}, "ready": False}
    assert reasons(built.pod(POD, **starting, phase="Running")) == [Reason.SEVERAL_BUDGETS]
    assert reasons(built.pod(POD, **starting, phase="Pending")) == []


def test_what_clocks_say_is_still_to_come_was_just_now():
    ahead = datetime.fromtimestamp(NOW + 10, UTC).isoformat()
    moved = two_nodes().pod(POD, on="a", annotations={"scheduler.alpha.kubernetes.io/migration-time": ahead})
    young = two_nodes().pod(POD, on="a", created=ahead)
    for built, words in (
        (moved, "it was moved 0s ago; podCooldown is 30m"),
        (young, "it is 0s old; minPodAge is 5m"),
    ):
        refusal = Eligibility(built.snapshot(), POLICY, urgent=False).refusal(0)
        assert refusal is not None
        assert refusal.detail == words


# --- eviction


def test_small_workloads_are_evicted_in_maintenance_only():
    built = stateful(replicas=1)
    assert reasons(built, pod="shop/db-0") == [Reason.TOO_FEW_REPLICAS]
    assert reasons(built, pod="shop/db-0", urgent=True) == []
    assert reasons(built, policy(min_replicas_for_evict=1), "shop/db-0") == []


def test_a_single_replica_that_is_copied_first_may_move():
    assert reasons(two_nodes().deployment("shop/web", replicas=1, on=["a"])) == []


def test_replicas_of_an_unknown_workload_are_counted():
    alone = two_nodes().pod("shop/db-0", on="a", owner="StatefulSet/db")
    assert reasons(alone, pod="shop/db-0") == [Reason.TOO_FEW_REPLICAS]
    assert reasons(alone.pod("shop/db-1", on="b", owner="StatefulSet/db"), pod="shop/db-0") == []


def test_unsteered_evictions_need_leave_or_a_cordoned_node():
    assert reasons(stateful(), pod="shop/db-0", steered=False) == [Reason.UNSTEERED]
    assert reasons(stateful(), policy(allow_unsteered=True), "shop/db-0", steered=False) == []
    cordoned = stateful().node("a", cordoned=True)
    assert reasons(cordoned, pod="shop/db-0", steered=False) == []
    assert reasons(cordoned, pod="shop/db-1", steered=False) == [Reason.UNSTEERED]


def test_all_reasons_are_found_and_the_first_counts():
    built = one_pod(
        owner="DaemonSet/web",
        created=at(1),
        spec={"priorityClassName": "system-node-critical", "schedulerName": "volcano"},
    )
    assert reasons(built) == [
        Reason.DAEMON_SET_POD,
        Reason.TOO_YOUNG,
        Reason.SYSTEM_POD,
        Reason.OTHER_SCHEDULER,
    ]


def test_every_reason_is_asked_for_once():
    asked = [reason for reason, _ in PROTECTION_CHECKS]
    assert len(set(asked)) == len(asked)


@pytest.mark.parametrize("urgent", [False, True])
def test_a_pod_stays_while_others_use_its_claim_which_is_for_one_node_only(urgent):
    built = cluster().nodes("a", "b").claim("shop/data", volume="pv").volume("pv", claim="shop/data")
    built.deployment("shop/web", replicas=2, on=["a"], claims=["data"])
    assert reasons(built, urgent=urgent) == [Reason.CLAIM_SHARED]
    built.remove("shop/web-1-1").deployment("shop/web", replicas=1, on=["a"], claims=["data"])
    assert reasons(built, policy(min_replicas_for_evict=1), urgent=urgent) == []


def test_pods_that_have_finished_are_not_counted_as_replicas():
    built = two_nodes().pod("shop/crunch-0", on="a", owner="Job/crunch")
    for number in (1, 2):
        built.pod(f"shop/crunch-{number}", on="a", owner="Job/crunch", phase="Failed")
    assert reasons(built, policy(include_jobs=True), "shop/crunch-0") == [Reason.TOO_FEW_REPLICAS]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet"])
def test_pods_of_a_workload_that_is_being_deleted_stay(kind):
    built = web()
    found = next(item for item in built.objects if item["kind"] == kind)
    built.apply(merged(found, {"metadata": {"deletionTimestamp": LONG_AGO}}))
    assert reasons(built) == [Reason.TERMINATING]


def test_bare_pods_without_uids_are_distinguished():
    asked = {"rescheduler.dev/handover": "Evict"}
    built = two_nodes().pod("shop/one", on="a", metadata={"uid": ""})
    built.pod("shop/other", on="a", metadata={"uid": ""}, annotations=asked)
    snapshot = built.snapshot()
    eligibility = Eligibility(snapshot, POLICY, urgent=False)
    found = [eligibility.refusal(snapshot.pods.row[key]) for key in ("shop/one", "shop/other")]
    assert [each and each.reason for each in found] == [None, Reason.HANDOVER_IMPOSSIBLE]
