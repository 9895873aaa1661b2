"""Ledgers that users can write are limited in size, fairly per namespace."""

from hypothesis import given
from hypothesis import strategies as st

from rescheduler.steering.failed_attempts_watch import LedgerTexts

WORKLOADS = st.tuples(st.sampled_from(["Job", "StatefulSet"]), st.sampled_from("abc"), st.sampled_from("xyz"))


def test_the_largest_of_the_namespace_with_the_most_is_dropped_first():
    texts = LedgerTexts(total=100, per_namespace=80)
    for name, size in (("small", 10), ("large", 60)):
        texts.put(("Job", "attacker", name), "." * size)
    texts.put(("Job", "shop", "db"), "." * 20)
    texts.put(("Job", "shop", "web"), "." * 20)
    assert texts.take_dropped() == {("Job", "attacker", "large")}
    assert texts.size == 50
    assert texts.get(("Job", "shop", "db"))
    assert texts.get(("Job", "attacker", "small"))
    assert texts.take_dropped() == set()


def test_one_namespace_has_a_limit_of_its_own():
    texts = LedgerTexts(total=100, per_namespace=50)
    texts.put(("Job", "shop", "db"), "." * 30)
    texts.put(("Job", "shop", "web"), "." * 31)
    assert texts.take_dropped() == {("Job", "shop", "web")}


@given(st.lists(st.tuples(WORKLOADS, st.integers(0, 60)), max_size=40))
def test_it_never_keeps_more_than_its_limits_and_counts_what_it_keeps(written):
    texts = LedgerTexts(total=100, per_namespace=60)
    latest = {}
    for workload, size in written:
        texts.put(workload, "." * size)
        latest[workload] = size
        kept = {each: len(texts.get(each)) for each in latest}
        assert texts.size == sum(kept.values()) <= 100
        for namespace in "abc":
            assert sum(size for each, size in kept.items() if each[1] == namespace) <= 60
        assert all(kept[each] in {0, latest[each]} for each in latest)
    for workload in latest:
        texts.put(workload, "")
    assert texts.size == 0
