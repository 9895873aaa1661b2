"""Annotations with forged ledgers don't harm other workloads."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.api.well_known_names import FAILED_ATTEMPTS_ANNOTATION
from rescheduler.config.policy import FailedPodsPolicy, Policy
from rescheduler.planner.explanation import explain_node, explain_pod
from rescheduler.planner.plan_builder import build_plan
from rescheduler.recovery.attempt_ledger import (
    MAX_LINEAGES,
    AttemptLedger,
    FailedAttempt,
    ReplicaLineage,
    read_ledger,
)
from rescheduler.recovery.failing_pods import find_failing_pods
from rescheduler.recovery.recovery_decision import RETRIES_ANNOTATION
from rescheduler.recovery.replica_lineage import KSE_ANNOTATIONS
from rescheduler.strategies.strategy_registry import strategies_of
from tests.building import NOW, cluster

TERMS = FailedPodsPolicy()
MOMENTS = st.one_of(
    st.sampled_from(
        ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00", "now"]
    ),
    st.integers(0, 2**33).map(lambda seconds: datetime.fromtimestamp(seconds, UTC).isoformat()),
)
NODES = st.sampled_from(["good", "other", "no-such-node", "", "../../x", "\x1b[2J", "[/red]", "n" * 500])
TRIES = st.fixed_dictionaries({"t": MOMENTS, "node": NODES, "pod": st.sampled_from(["u", "", "p" * 400])})
LINES = st.fixed_dictionaries(
    {"revision": st.text(max_size=5), "tries": st.lists(TRIES, max_size=30)},
    optional={"end": TRIES, "earlier": st.integers(-1, 2**40), "forgiven": st.integers(-1, 2**40)},
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def forged(name):
    """Records that are well formed as a rule, for the Deployment of that name in namespace `tenant`."""
    uid = f"uid-of-deployment-tenant-{name}"
    lines = st.dictionaries(st.sampled_from([f"{name}-1-0", "x", "y" * 400, "\x1b[2J"]), LINES, max_size=4)
    ledger = st.fixed_dictionaries({"v": st.just(1), "of": st.just(uid), "lines": lines})
    return st.one_of(ledger.map(json.dumps), JUNK.map(json.dumps), st.text(max_size=20))


def tenant(*records, well=True):
    """Deployments of one namespace with these records; nothing of them fails."""
    made = cluster().nodes("good", "other", "third")
    for number, record in enumerate(records):
        annotations = {RETRIES_ANNOTATION: "3", FAILED_ATTEMPTS_ANNOTATION: record}
        made.deployment(f"tenant/w{number}", on=["other" if well else "good"], annotations=annotations)
    return made


def a_try(node, moment="9999-12-31T23:59:59Z"):
    return {"t": moment, "node": node, "pod": "some-uid"}


def record_of(number, *tries):
    line = {"revision": "1", "tries": list(tries)}
    return json.dumps(
        {"v": 1, "of": f"uid-of-deployment-tenant-w{number}", "lines": {f"w{number}-1-0": line}}
    )


@pytest.mark.parametrize(
    "moment", ["9999-12-31T23:59:59Z", datetime.fromtimestamp(NOW - 60, UTC).isoformat()]
)
def test_forged_records_make_no_node_suspect(moment):
    made = tenant(*(record_of(number, a_try("good", moment)) for number in range(9)))
    assert find_failing_pods(made.snapshot(), TERMS).suspects == {}


@given(forged("w0"), forged("w1"), forged("w2"))
def test_whatever_is_written_no_node_is_suspect_and_recovery_continues(first, second, third):
    made = tenant(first, second, third)
    made.deployment("bank/api", on=["good"])
    snapshot, policy = made.snapshot(), Policy()
    found = find_failing_pods(snapshot, TERMS)
    assert found.suspects == {}
    theirs = next(number for number, each in enumerate(snapshot.workloads) if each.key == "bank/api")
    assert found.last_resort_nodes(theirs) is None, "no node is worse for others"
    build_plan(snapshot, policy, strategies_of(policy))
    explain_pod(snapshot, policy, "tenant/w0-1-0")
    explain_node(snapshot, policy, "good")


@given(forged("w0"))
def test_what_is_read_is_bounded_and_can_be_written_again(text):
    ledger = read_ledger(text, {"uid-of-deployment-tenant-w0"}, NOW)
    assert len(ledger.lineages) <= MAX_LINEAGES
    for line in ledger.lineages.values():
        assert len(line.tries) <= 20
        assert line.last_s <= NOW + 300
        assert all(len(each.node) <= 253 and len(each.pod) <= 253 for each in line.failures)
    written = ledger.written("uid-of-deployment-tenant-w0")
    assert read_ledger(written, {"uid-of-deployment-tenant-w0"}, NOW).lineages == ledger.lineages


def test_a_record_that_is_too_large_is_not_even_read():
    text = record_of(0, *(a_try("good") for _ in range(5000)))
    assert len(text) > 240_000
    assert read_ledger(text, {"uid-of-deployment-tenant-w0"}, NOW) == AttemptLedger(is_damaged=True)


def test_what_we_write_ourselves_never_gets_too_large():
    ledger, uid = AttemptLedger(), "x" * 36
    for replica in range(1000):
        for number in range(10):
            failure = FailedAttempt(
                int(NOW),
                f"ip-10-0-{replica}-{number}.eu-central-1.compute.internal",
                uid[:-4] + f"{number:04}",
            )
            ledger = ledger.with_failure(
                f"a-workload-with-a-long-name-{replica:04}-abcde", failure, 10, "7d4b9c6f5d"
            )
    assert len(ledger.written(uid)) < 200_000
    assert not ledger.has_room_for("one more")
    assert read_ledger(ledger.written(uid), {uid}, NOW) == ledger


def test_a_try_in_the_future_is_no_try():
    line = ReplicaLineage(
        (FailedAttempt(int(NOW) - 60, "n1", "u1"), FailedAttempt(int(NOW) + 3600, "n2", "u2")),
        end=FailedAttempt(int(NOW) + 9999, "n3", "u3"),
    )
    found = read_ledger(AttemptLedger({"a": line}).written("me"), {"me"}, NOW)
    assert found.lineages["a"] == ReplicaLineage((FailedAttempt(int(NOW) - 60, "n1", "u1"),))


@pytest.mark.parametrize("kind", sorted(KSE_ANNOTATIONS))
@given(text=st.one_of(JUNK.map(json.dumps), st.text(max_size=30)))
def test_nor_does_the_record_of_the_older_tool_do_any_harm(kind, text):
    made = cluster().nodes("good", "other")
    made.deployment(
        "tenant/w0", on=["other"], annotations={RETRIES_ANNOTATION: "3", KSE_ANNOTATIONS[kind]: text}
    )
    assert find_failing_pods(made.snapshot(), TERMS).suspects == {}


@pytest.mark.parametrize("value", ["999999999", "9" * 12, "9" * 5000, "0" * 5000 + "11"])
def test_a_number_of_tries_above_the_bound_is_capped_and_reported(value):
    made = cluster().nodes("good", "other")
    made.deployment("tenant/w0", on=["other"], annotations={RETRIES_ANNOTATION: value})
    reported = explain_pod(made.snapshot(), Policy(), "tenant/w0-1-0").recovery
    assert reported.retries == 10
    assert reported.by.startswith("Deployment/w0, scheduling-retries:")
    assert reported.by.endswith("is capped at 10 by failedPods.maxRetries")
    assert len(reported.by) < 200
