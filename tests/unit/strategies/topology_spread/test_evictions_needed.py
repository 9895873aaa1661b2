"""The least number of pods that must leave so that no anti-affinity is violated, by full search."""

from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from rescheduler.strategies.topology_spread.constraint_violations import ClassPods, evictions_needed

classes = st.dictionaries(
    st.integers(0, 4), st.builds(ClassPods, st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=4
)
pairs = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)).map(lambda pair: tuple(sorted(pair))))


@given(classes, pairs)
def test_it_is_as_many_as_a_search_of_all_ways_finds(pods_by_class, at_odds):
    assert evictions_needed(pods_by_class, at_odds) == searched(pods_by_class, at_odds)


def searched(pods_by_class, at_odds):
    """The fewest who must leave so that all who stay are at peace, but for those who can't leave."""
    fixed = [each for each, pods in pods_by_class.items() for _ in range(pods.fixed)]
    movable = [each for each, pods in pods_by_class.items() for _ in range(pods.movable)]
    fewest = len(movable)
    for leaves in product((False, True), repeat=len(movable)):
        staying = [each for each, gone in zip(movable, leaves, strict=True) if not gone]
        clashes = any((min(pair), max(pair)) in at_odds for pair in combinations(staying, 2)) or any(
            (min(a, b), max(a, b)) in at_odds for a in staying for b in fixed
        )
        if not clashes:
            fewest = min(fewest, sum(leaves))
    return fewest


def test_many_classes_at_odds_are_decided_quickly():
    pods_by_class = {number: ClassPods(1) for number in range(200)}
    all_pairs = {(a, b) for a in range(200) for b in range(a, 200)}
    assert evictions_needed(pods_by_class, all_pairs) == 199
