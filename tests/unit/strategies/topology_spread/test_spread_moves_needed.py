"""The least number of moves until pods are spread evenly enough, compared with a full search."""

from hypothesis import given
from hypothesis import strategies as st

from rescheduler.strategies.topology_spread.constraint_violations import (
    domain_sizes_of,
    moves_needed,
    moves_saved,
)

domains = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=4)


def crowd(*domains):
    return domain_sizes_of((pods, is_open, 1) for pods, is_open in domains)


def searched(domains, skew, *, from_zero):
    """Moves until it is even enough, one pod from anywhere to anywhere open; None if it never is."""
    reached = known = {tuple(domains)}
    moves = 0
    while reached:
        if any(_is_even(each, skew, from_zero=from_zero) for each in reached):
            return moves
        reached = {after for each in reached for after in _after_one(each)} - known
        known = known | reached
        moves += 1
    return None


def _is_even(domains, skew, *, from_zero):
    counts = [pods for pods, _ in domains]
    return max(counts) - (0 if from_zero else min(counts)) <= skew


def _after_one(domains):
    for source, (pods, source_open) in enumerate(domains):
        for target, (others, target_open) in enumerate(domains):
            if pods and target_open and source != target:
                after = list(domains)
                after[source], after[target] = (pods - 1, source_open), (others + 1, True)
                yield tuple(after)


@given(domains, st.integers(1, 3), st.booleans())
def test_it_is_as_many_as_a_search_of_all_ways_finds(domains, skew, from_zero):
    fewest = searched(domains, skew, from_zero=from_zero)
    if fewest is not None:
        assert moves_needed(crowd(*domains), skew, from_zero=from_zero) == fewest


@given(domains, st.integers(1, 3), st.data())
def test_what_a_move_saves_is_the_difference_that_it_makes(domains, skew, data):
    pairs = [
        (s, t)
        for s, (pods, _) in enumerate(domains)
        for t in range(len(domains))
        if s != t and pods and domains[t][1]
    ]
    if not pairs:
        return
    source, target = data.draw(st.sampled_from(pairs))
    after = list(domains)
    after[source] = (domains[source][0] - 1, domains[source][1])
    after[target] = (domains[target][0] + 1, True)
    saved = moves_saved(crowd(*domains), skew, domains[source], domains[target][0])
    assert saved == moves_needed(crowd(*domains), skew) - moves_needed(crowd(*after), skew)


def test_thousands_of_empty_domains_are_no_more_work():
    many = domain_sizes_of([(0, True, 100_000), (30, True, 1)])
    assert moves_needed(many, 1) == 29
