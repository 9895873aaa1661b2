"""Nodes on which several workloads failed are suspect for a while, unless the workload itself is broken."""

from datetime import timedelta

import pytest

from rescheduler.config.policy import DefaultRetries, FailedPodsPolicy
from rescheduler.recovery.failing_pods import (
    FailureOnNode,
    WorkloadFailures,
    find_failing_pods,
    find_suspect_nodes,
    next_expiry_s,
)
from tests.building import NOW, cluster, merged
from tests.failing_pods import ago, crashing, lost, tried_on
from tests.objects import node_object

TERMS = FailedPodsPolicy()
NODES = dict.fromkeys(("n1", "n2", "n3", "n4"), 0.0)
THREE = {"scheduling-retries": "3"}


def witness(workload, *failed_on, ago_s=60.0, healthy_nodes=(), revision="1", namespace=None, observed=True):
    """Each in a namespace of its own, unless that is said."""
    failures = tuple(FailureOnNode(node, NOW - ago_s, revision, observed) for node in failed_on)
    return WorkloadFailures(
        workload, namespace or f"of-{workload}", failures, {"1": frozenset(healthy_nodes)}
    )


def found(*witnesses, made_s=NODES, terms=TERMS, started=()):
    return find_suspect_nodes(witnesses, made_s, terms, NOW, started_there=lambda _: started)


def test_three_different_workloads_make_a_node_suspect():
    names = ("Deployment/shop/c", "Deployment/shop/a", "Job/shop/a")
    assert found(*(witness(name, "n1") for name in names)) == {"n1": tuple(sorted(names))}


def test_one_workload_does_not_however_often_it_fails():
    assert found(witness("a", "n1", "n1", "n1"), witness("b", "n1")) == {}


def test_what_is_long_past_does_not_count():
    assert found(witness("a", "n1"), witness("b", "n1"), witness("c", "n1", ago_s=1800)) == {}


def test_how_many_and_how_long_is_set():
    terms = FailedPodsPolicy(suspect_after=2, suspect_window=timedelta(hours=1))
    assert found(witness("a", "n1"), witness("c", "n1", ago_s=1800), terms=terms) == {"n1": ("a", "c")}


# --- who may say so


def test_workloads_of_one_namespace_alone_make_no_node_suspect():
    same = [witness(name, "n1", namespace="shop") for name in "abcdef"]
    assert found(*same) == {}
    assert found(*same[:2], witness("c", "n1", namespace="bank")) == {"n1": ("a", "b", "c")}


def test_what_was_only_read_on_workloads_does_not_count():
    assert found(*(witness(name, "n1", observed=False) for name in "abcdef")) == {}
    assert found(witness("a", "n1"), witness("b", "n1"), witness("c", "n1", observed=False)) == {}


def test_a_tenant_with_two_namespaces_is_contradicted_by_the_pods_of_others():
    """Pods can fail on purpose. As many namespaces whose new pods run well there outweigh them."""
    failing = [witness(name, "n1", namespace=f"attacker-{name in 'ab'}") for name in "abc"]
    assert found(*failing, started=["shop"]).keys() == {"n1"}
    assert found(*failing, started=["shop", "attacker-True"]).keys() == {"n1"}, "not their own"
    assert found(*failing, started=["shop", "bank"]) == {}


def test_at_most_a_quarter_of_all_nodes_is_suspect():
    """Those that fail the pods of most namespaces."""
    nodes = {f"n{number}": 0.0 for number in range(20)}
    few = [witness(f"{name}-{node}", node, namespace=name) for node in list(nodes)[:8] for name in "abc"]
    more = [witness(f"{name}-{node}", node, namespace=name) for node in ("n6", "n7") for name in "defg"]
    assert list(found(*few, *more, made_s=nodes)) == ["n0", "n1", "n2", "n6", "n7"]


# --- their own fault


def test_workloads_that_fail_wherever_they_are_say_nothing_about_nodes():
    assert found(*(witness(name, "n1", "n2") for name in "abc")) == {}


def test_not_even_long_after_they_were_given_up():
    given_up = [
        WorkloadFailures(name, name, (FailureOnNode("n1", NOW), FailureOnNode("n2", NOW - 5000)), {})
        for name in "abc"
    ]
    assert found(*given_up) == {}


def test_one_that_failed_on_two_nodes_and_runs_well_on_another_speaks_against_both():
    well = [witness(name, "n1", "n2", healthy_nodes=["n3"]) for name in "abc"]
    assert found(*well) == {"n1": ("a", "b", "c"), "n2": ("a", "b", "c")}


def test_that_it_runs_well_beside_one_that_fails_shows_nothing():
    assert found(*(witness(name, "n1", "n2", healthy_nodes=["n2"]) for name in "abc")) == {}


def test_nor_does_what_runs_well_from_another_template():
    """A rollout of what can't run anywhere, while the old pods go on."""
    rollouts = [witness(name, "n1", "n2", healthy_nodes=["n3", "n4"], revision="2") for name in "abc"]
    assert found(*rollouts) == {}


def test_if_most_nodes_would_be_suspect_none_is():
    """An outage of something that all need: each workload fails on the one node where it is."""
    outage = [witness(f"{name}-on-{node}", node) for node in ("n1", "n2", "n3") for name in "abc"]
    assert found(*outage) == {}
    assert found(*outage[3:]).keys() == {"n2", "n3"}, "half of them may be"


# --- nodes that go, and come back


def test_a_node_that_is_no_more_is_not_suspect():
    assert found(*(witness(name, "gone") for name in "abc")) == {}


def test_a_node_is_not_blamed_for_what_happened_before_it_was_made():
    before = [witness(name, "n1", ago_s=600) for name in "abc"]
    assert found(*before, made_s={**NODES, "n1": NOW - 300}) == {}
    assert found(*before, made_s={**NODES, "n1": NOW - 900}).keys() == {"n1"}


# --- time


def test_the_next_change_is_when_the_oldest_failure_that_counts_is_forgotten():
    past = [witness("a", "n1", ago_s=600), witness("b", "n1", ago_s=60), witness("c", "n1", ago_s=5000)]
    assert next_expiry_s(past, TERMS, NOW) == NOW + 1200
    assert next_expiry_s(past[2:], TERMS, NOW) is None


# --- in a whole cluster


def seen(made, terms=TERMS):
    return find_failing_pods(made.snapshot(), terms).suspects


KEYS = ("shop/x", "shop/y", "bank/z")


@pytest.mark.parametrize("is_moved", [True, False])
def test_what_fails_now_counts_together_with_what_migrations_have_shown(is_moved):
    """A record without a migration could have been written by any user."""
    made = cluster().nodes("bad", "b", "c")
    for key in ("shop/x", "shop/y"):
        tried_on(made, key, "bad", on="b", is_moved=is_moved)
    assert seen(made) == {}
    made.deployment("bank/z", on=["bad"], annotations=THREE, **crashing())
    all_three = {"bad": ("Deployment/bank/z", "Deployment/shop/x", "Deployment/shop/y")}
    assert seen(made) == (all_three if is_moved else {})


@pytest.mark.parametrize(("age_s", "is_suspect"), [(60, False), (7200, True)], ids=["new", "old"])
def test_new_pods_of_others_that_run_well_there_contradict(age_s, is_suspect):
    """Old ones don't: they go on where new ones can't start, as on a node without disk space."""
    made = cluster().nodes("bad", "b", "c")
    for key in KEYS:
        made.deployment(key, on=["bad"], annotations=THREE, **crashing())
    for namespace in ("one", "other"):
        made.pod(f"{namespace}/web", on="bad", created=ago(age_s))
    assert (seen(made).keys() == {"bad"}) is is_suspect


def test_many_replicas_of_one_workload_are_one():
    made = cluster().nodes("bad", "b", "c")
    made.deployment("shop/x", replicas=20, on=["bad"], annotations=THREE, **crashing())
    assert seen(made) == {}


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({}, id="says nothing"),
        pytest.param({"scheduling-retries": "0"}, id="allows nothing"),
        pytest.param({"scheduling-retries": "?"}, id="makes no sense"),
    ],
)
def test_who_does_not_ask_for_it_does_not_count(annotations):
    made = cluster().nodes("bad", "b", "c")
    for key in KEYS:
        made.deployment(key, on=["bad"], annotations=annotations, **crashing())
    assert seen(made) == {}


def test_pods_that_fail_on_their_second_node_too_don_t_make_either_suspect():
    made = cluster().nodes("a", "b", "c", "d")
    for key in KEYS:
        tried_on(made, key, "a", on="b", **crashing())
    assert seen(made) == {}


def test_the_first_one_is_if_they_run_well_on_the_second():
    made = cluster().nodes("a", "b", "c", "d")
    for key in KEYS:
        tried_on(made, key, "a", on="b")
    assert seen(made).keys() == {"a"}


def test_a_daemon_set_that_fails_on_every_node_blames_none_of_them():
    terms = FailedPodsPolicy(default_retries=(DefaultRetries(namespaces=("shop", "bank"), retries=3),))
    made = cluster().nodes("a", "b", "c", "d")
    for key in KEYS:
        made.daemon_set(key, on=["a", "b", "c", "d"], **crashing())
    assert seen(made, terms) == {}
    for key in KEYS:
        made.daemon_set(key, on=["b", "c", "d"])
    assert seen(made, terms).keys() == {"a"}


def test_a_lost_node_is_suspect_until_it_is_deleted():
    made = cluster().nodes("b", "c").node("away", **lost())
    for key in KEYS:
        made.deployment(key, on=["away"], annotations=THREE)
    assert seen(made).keys() == {"away"}
    made.state.remove_node("away")
    assert seen(made) == {}


def test_a_node_that_was_created_again_is_not_suspect():
    made = cluster().nodes("bad", "b", "c")
    for key in KEYS:
        tried_on(made, key, "bad", on="b", ago_s=600)
    assert seen(made).keys() == {"bad"}
    made.apply(merged(node_object("bad"), {"metadata": {"creationTimestamp": ago(300)}}))
    assert seen(made) == {}
