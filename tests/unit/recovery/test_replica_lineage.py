"""Which pods are one replica over time, so that a failing replica uses up only its own allowance."""

from hypothesis import given
from hypothesis import strategies as st

from rescheduler.api.well_known_names import ORIGINAL_POD_ANNOTATION, ORIGINAL_POD_NAME_ANNOTATION
from rescheduler.recovery.attempt_ledger import AttemptLedger, FailedAttempt, ReplicaLineage
from rescheduler.recovery.replica_lineage import CARRIED_OVER, lineages_of, revision_of
from tests.building import NOW, pod_record
from tests.failing_pods import ago, failed
from tests.objects import pod_object

HASH = {"pod-template-hash": "1"}
GOING = "2026-03-02T11:59:00Z"


def pod(name, *, owner="ReplicaSet/web", **parts):
    parts = {"on": "a", "labels": HASH, "created": ago(86_400), **parts}
    return pod_record(pod_object(f"shop/{name}", owner=owner, **parts))


def uid(name):
    return f"uid-of-pod-shop-{name}"


def line(*failures, revision="1"):
    return ReplicaLineage(
        tuple(FailedAttempt(int(NOW - ago_s), node, pod) for ago_s, node, pod in failures), revision=revision
    )


def test_without_records_each_pod_is_a_lineage_of_its_own():
    pods = [pod("web-a"), pod("web-b")]
    assert lineages_of(AttemptLedger(), pods) == {uid("web-a"): "web-a", uid("web-b"): "web-b"}


def test_a_pod_on_record_is_its_line():
    ledger = AttemptLedger({"web-a": line((60, "n1", uid("web-a")))})
    assert lineages_of(ledger, [pod("web-a"), pod("web-b")])[uid("web-a")] == "web-a"


def test_a_copy_of_ours_says_whose_place_it_takes():
    ledger = AttemptLedger({"web-a": line((60, "n1", uid("web-a")))})
    copy = pod("web-z", annotations={ORIGINAL_POD_ANNOTATION: uid("web-a")}, created=ago(30))
    assert lineages_of(ledger, [copy, pod("web-b")])[uid("web-z")] == "web-a"


def test_what_a_controller_made_by_itself_takes_the_place_that_is_vacant():
    ledger = AttemptLedger({"web-a": line((60, "n1", uid("web-a")))})
    old, new = pod("web-b"), pod("web-c", created=ago(58))
    found = lineages_of(ledger, [old, new])
    assert found == {uid("web-b"): "web-b", uid("web-c"): "web-a"}


def test_a_place_is_vacant_although_its_last_pod_lies_about_or_is_going():
    ledger = AttemptLedger({"web-a": line((60, "n1", uid("web-a")))})
    new = pod("web-c", created=ago(58))
    for old in (pod("web-a", **failed()), pod("web-a", deleted=GOING)):
        assert lineages_of(ledger, [old, new]) == {uid("web-a"): "web-a", uid("web-c"): "web-a"}


def test_a_place_is_not_vacant_as_long_as_the_source_of_a_failed_copy_stands_there():
    ledger = AttemptLedger({"web-a": line((300, "n1", uid("web-a")), (60, "n2", "the-copy"))})
    new = pod("web-c", created=ago(58))
    assert lineages_of(ledger, [pod("web-a"), new])[uid("web-c")] == "web-c"


def test_the_longest_vacant_place_is_taken_first_and_each_once():
    ledger = AttemptLedger({"web-a": line((60, "n1", uid("web-a"))), "web-b": line((90, "n1", uid("web-b")))})
    first, second, third = (
        pod("web-x", created=ago(59)),
        pod("web-y", created=ago(58)),
        pod("web-z", created=ago(57)),
    )
    assert lineages_of(ledger, [third, second, first]) == {
        uid("web-x"): "web-b",
        uid("web-y"): "web-a",
        uid("web-z"): "web-z",
    }


def test_a_pod_of_another_template_takes_no_place():
    ledger = AttemptLedger({"web-a": line((60, "n1", uid("web-a")))})
    new = pod("web-c", created=ago(58), labels={"pod-template-hash": "2"})
    assert lineages_of(ledger, [new]) == {uid("web-c"): "web-c"}


def test_pods_of_a_stateful_set_are_known_by_name():
    ledger = AttemptLedger({"db-0": line((60, "n1", "gone"))})
    pods = [pod("db-0", owner="StatefulSet/db"), pod("db-1", owner="StatefulSet/db", created=ago(10))]
    assert lineages_of(ledger, pods) == {uid("db-0"): "db-0", uid("db-1"): "db-1"}


def test_those_of_a_daemon_set_by_node():
    assert lineages_of(AttemptLedger(), [pod("proxy-x", owner="DaemonSet/proxy", on="n7")]) == {
        uid("proxy-x"): "n7"
    }


def test_those_of_an_indexed_job_by_index():
    labels = {"batch.kubernetes.io/job-completion-index": "4"}
    found = lineages_of(AttemptLedger(), [pod("sum-4-x", owner="Job/sum", labels=labels)])
    assert found == {uid("sum-4-x"): "sum[4]"}


def test_pods_without_a_controller_by_the_name_they_had_before_they_were_moved():
    bare = pod("rescheduled-x-abc", owner="", annotations={ORIGINAL_POD_NAME_ANNOTATION: "x"})
    assert lineages_of(AttemptLedger(), [bare]) == {uid("rescheduled-x-abc"): "x"}


def test_a_record_of_an_older_tool_is_for_the_one_that_fails():
    ledger = AttemptLedger({CARRIED_OVER: ReplicaLineage((FailedAttempt(node="n1"),))})
    well, bad = pod("web-a"), pod("web-b", ready=False)
    assert lineages_of(ledger, [well, bad]) == {uid("web-a"): "web-a", uid("web-b"): CARRIED_OVER}


def test_if_none_fails_it_is_for_the_oldest():
    ledger = AttemptLedger({CARRIED_OVER: ReplicaLineage((FailedAttempt(node="n1"),))})
    found = lineages_of(ledger, [pod("web-a"), pod("web-b", created=ago(90_000))])
    assert found == {uid("web-a"): "web-a", uid("web-b"): CARRIED_OVER}


def test_a_template_is_known_by_its_hash_or_by_its_job():
    assert revision_of(pod("x")) == "1"
    assert (
        revision_of(pod("x", labels={"controller-revision-hash": "db-5"}, owner="StatefulSet/db")) == "db-5"
    )
    assert revision_of(pod("x", labels={}, owner="Job/nightly-7")) == "nightly-7"
    assert revision_of(pod("x", labels={}, owner="")) == ""


@given(
    st.lists(st.tuples(st.integers(0, 500), st.booleans(), st.sampled_from("12")), max_size=8),
    st.lists(
        st.tuples(st.integers(0, 500), st.sampled_from(["web-0", "web-1", "gone-a", "gone-b"])), max_size=4
    ),
)
def test_every_pod_has_a_line_and_no_two_living_ones_of_different_descent_share_one(pods, failures):
    made = [
        pod(f"web-{number}", created=ago(age), labels={"pod-template-hash": revision}, ready=ready)
        for number, (age, ready, revision) in enumerate(pods)
    ]
    ledger = AttemptLedger({name: line((age, "n1", uid(name))) for age, name in failures})
    found = lineages_of(ledger, made)
    assert found.keys() == {each.uid for each in made}
    assert len(set(found.values())) == len(made)
    assert found == lineages_of(ledger, reversed(made))
