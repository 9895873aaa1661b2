"""The attempt ledger: readable, small, and robust against other content of the annotation."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.recovery.attempt_ledger import (
    MAX_LINEAGES,
    AttemptLedger,
    FailedAttempt,
    ReplicaLineage,
    read_ledger,
)

HOLDER = "6f1c"
NOON = 1_772_452_980


def tried(*failures, retries=3, line="web-x"):
    ledger = AttemptLedger()
    for number, (node, pod) in enumerate(failures):
        ledger = ledger.with_failure(line, FailedAttempt(NOON + number, node, pod), retries)
    return ledger


def test_it_is_written_in_few_words():
    ledger = AttemptLedger().with_failure("web-x", FailedAttempt(NOON, "n1", "p1"), 3, "7d4b9")
    assert ledger.written(HOLDER) == (
        '{"v":1,"of":"6f1c","lines":{"web-x":{"revision":"7d4b9",'
        '"tries":[{"t":"2026-03-02T12:03:00Z","node":"n1","pod":"p1"}]}}}'
    )


def test_nothing_to_remember_is_nothing():
    assert AttemptLedger().written(HOLDER) == ""
    assert read_ledger("", [HOLDER]) == AttemptLedger()
    assert tried(("n1", "p1")).without({"web-x"}).written(HOLDER) == ""


def test_three_means_three():
    ledger = tried(("n1", "p1"), ("n2", "p2"), ("n3", "p3"), ("n4", "p4"), ("n5", "p5"))
    line = ledger.lineage("web-x")
    assert line.count == 3
    assert [each.pod for each in line.tries] == ["p1", "p2", "p3"]
    assert line.end == FailedAttempt(NOON + 3, "n4", "p4")


def test_a_pod_that_is_on_record_is_not_counted_again():
    once = tried(("n1", "p1"))
    assert once.with_failure("web-x", FailedAttempt(NOON + 60, "n1", "p1"), 3) == once
    ended = tried(("n1", "p1"), ("n2", "p2"), retries=1)
    assert ended.with_failure("web-x", FailedAttempt(NOON + 60, "n2", "p2"), 1) == ended


def test_a_larger_allowance_goes_on_where_the_smaller_one_ended():
    ended = tried(("n1", "p1"), ("n2", "p2"), retries=1)
    resumed = ended.with_failure("web-x", FailedAttempt(NOON + 60, "n2", "p2"), 2).lineage("web-x")
    assert resumed.end is None
    assert [each.pod for each in resumed.tries] == ["p1", "p2"]


def test_the_source_of_a_copy_that_failed_takes_up_the_end_when_more_is_allowed():
    """It is on record as the first; the copy that failed last is what the line ended with."""
    ended = tried(("n1", "source"), ("n2", "copy"), retries=1)
    resumed = ended.with_failure("web-x", FailedAttempt(NOON + 60, "n1", "source"), 2).lineage("web-x")
    assert (resumed.count, resumed.end) == (2, None)


def test_one_bad_replica_does_not_use_up_the_tries_of_its_siblings():
    ledger = tried(("n1", "p1"), ("n2", "p2"), ("n3", "p3"), ("n4", "p4"))
    other = ledger.with_failure("web-y", FailedAttempt(NOON, "n1", "q1"), 3)
    assert other.lineage("web-x").end is not None
    assert other.lineage("web-y").count == 1


def test_another_template_starts_with_a_clean_sheet():
    ledger = AttemptLedger().with_failure("db-0", FailedAttempt(NOON, "n1", "p1"), 1, "old")
    ledger = ledger.with_failure("db-0", FailedAttempt(NOON, "n2", "p2"), 1, "old")
    assert ledger.lineage("db-0", "old").end is not None
    assert ledger.lineage("db-0", "new") == ReplicaLineage(revision="new")
    restarted = ledger.with_failure("db-0", FailedAttempt(NOON, "n2", "p3"), 1, "new").lineage("db-0", "new")
    assert (restarted.count, restarted.end, restarted.revision) == (1, None, "new")


def test_the_nodes_that_were_tried_are_known():
    assert tried(("n2", "p1"), ("n1", "p2")).lineage("web-x").nodes == ("n1", "n2")


def test_when_they_are_forgiven_the_last_one_and_the_count_stay():
    ledger = tried(("n1", "p1"), ("n2", "p2")).forgiving("web-x")
    assert ledger.lineage("web-x").nodes == ("n2",)
    assert ledger.lineage("web-x").count == 2
    again = ledger.with_failure("web-x", FailedAttempt(NOON + 9, "n1", "p3"), 3)
    assert again.lineage("web-x").nodes == ("n1", "n2")
    assert AttemptLedger().forgiving("web-x") == AttemptLedger()


def test_a_copy_that_travelled_to_another_object_is_no_record():
    """Deployments and ReplicaSets copy annotations to each other."""
    written = tried(("n1", "p1")).written("the-deployment")
    assert read_ledger(written, ["the-replica-set"]) == AttemptLedger()
    assert read_ledger(written, ["the-deployment", "other"]).lineage("web-x").count == 1


DAMAGED = [
    "{",
    "null",
    "[]",
    "3",
    '"x"',
    "{}",
    '{"v":2,"of":"6f1c","lines":{}}',
    '{"v":1,"of":"6f1c","lines":[]}',
    '{"v":1,"of":"6f1c","lines":{"x":{"tries":3}}}',
    '{"v":1,"of":"6f1c","lines":{"x":{"tries":[{"t":"yesterday"}]}}}',
    '{"v":1,"of":"6f1c","lines":{"x":{"tries":[{"t":"2026-03-02T12:03:00"}]}}}',
    '{"v":1,"of":"6f1c","lines":{"x":{"earlier":-1}}}',
    '{"v":1,"of":"6f1c","lines":{"x":{"earlier":1e400}}}',
    "\udcff",
    "[" * 100_000,
]


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_what_can_not_be_read_counts_as_nothing_and_is_said(text):
    assert read_ledger(text, [HOLDER]) == AttemptLedger(is_damaged=True)


def test_fields_of_later_versions_are_passed_over():
    text = '{"v":1,"of":"6f1c","new":1,"lines":{"x":{"tries":[{"node":"n1","who":"me"}]}}}'
    assert read_ledger(text, [HOLDER]).lineage("x").nodes == ("n1",)


def test_its_size_is_bounded():
    ledger = AttemptLedger()
    for number in range(MAX_LINEAGES + 50):
        for turn in range(3):
            failure = FailedAttempt(NOON, f"node-{turn}", f"0b1e7b1c-8c2e-4d21-a1d3-{number:08}{turn:04}")
            ledger = ledger.with_failure(f"web-7d4b9c6f5-{number:05}", failure, 3, "7d4b9c6f5")
    assert len(ledger.lineages) == MAX_LINEAGES
    assert not ledger.has_room_for("another")
    assert len(ledger.written(HOLDER)) < 100_000


def test_of_a_great_many_tries_only_some_are_listed_and_all_are_counted():
    ledger = tried(*((f"n{number}", f"p{number}") for number in range(150)), retries=100)
    line = read_ledger(ledger.written(HOLDER), [HOLDER]).lineage("web-x")
    assert line.count == 100
    assert line.tries[0].pod == "p0"  # the source, while its copies fail
    assert line.tries[-1].pod == "p99"
    assert len(ledger.written(HOLDER)) < 4096


def test_the_nodes_of_tries_that_are_yet_to_come_can_not_be_forgiven():
    """Any text that a user wrote there by hand."""
    text = '{"v":1,"of":"6f1c","lines":{"x":{"tries":[{"node":"n1","pod":"p1"}],"forgiven":99}}}'
    ledger = read_ledger(text, [HOLDER])
    assert ledger.lineage("x").nodes == ()
    assert ledger.with_failure("x", FailedAttempt(NOON, "n2", "p2"), 3).lineage("x").nodes == ("n2",)


def test_the_first_try_stays_forgiven_when_others_are_no_longer_listed():
    ledger = tried(("n0", "p0"), ("n1", "p1"), retries=100).forgiving("web-x")
    assert ledger.lineage("web-x").nodes == ("n1",)
    for number in range(2, 22):
        ledger = ledger.with_failure("web-x", FailedAttempt(NOON, f"n{number}", f"p{number}"), 100)
    assert ledger.lineage("web-x").tries[0].node == "n0"
    assert "n0" not in ledger.lineage("web-x").nodes


NAMES = st.text(st.characters(codec="utf-8"), max_size=8)
NODES = st.sampled_from(["", "n1", "ip-10-0-0-1.ec2.internal"])
FAILURES = st.builds(FailedAttempt, st.integers(0, 4_000_000_000), NODES, NAMES)
LINES = st.lists(FAILURES, max_size=20).flatmap(
    lambda tries: st.builds(
        ReplicaLineage,
        st.just(tuple(tries)),
        st.none() | FAILURES,
        NAMES,
        st.integers(0, 1000),
        st.integers(0, len(tries)),
    )
)


@given(st.dictionaries(NAMES, LINES, max_size=5), NAMES)
def test_what_is_written_is_read_again(lines, holder):
    ledger = AttemptLedger({name: line for name, line in lines.items() if line.count or line.end})
    written = ledger.written(holder)
    assert read_ledger(written, [holder]) == ledger
    assert not written or json.loads(written)["v"] == 1


@given(st.text(), st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_no_text_whatever_raises(text, value):
    read_ledger(text, [HOLDER])
    read_ledger(json.dumps(value), [HOLDER])
    read_ledger(json.dumps({"v": 1, "of": HOLDER, "lines": value}), [HOLDER])
    read_ledger(json.dumps({"v": 1, "of": HOLDER, "lines": {"x": {"tries": value}}}), [HOLDER])


@given(st.lists(st.tuples(st.sampled_from("abc"), NAMES, st.sampled_from("pqrstuvw"))), st.integers(1, 5))
def test_whatever_fails_no_replica_gets_more_tries_than_allowed(failures, retries):
    ledger = AttemptLedger()
    for at_s, (line, node, pod) in enumerate(failures):
        before = ledger
        ledger = ledger.with_failure(line, FailedAttempt(at_s, node, f"{line}{pod}"), retries)
        assert ledger.with_failure(line, FailedAttempt(at_s + 1, node, f"{line}{pod}"), retries) == ledger
        assert ledger.lineage(line).count <= retries
        assert all(
            ledger.lineage(other) == before.lineage(other) for other in before.lineages if other != line
        )
    for line in ledger.lineages:
        pods = {pod for each, _, pod in failures if each == line}
        assert ledger.lineage(line).count == min(len(pods), retries)
