"""Who has a turn: as many as are allowed, first come, first served, and never more."""

from collections import Counter
from datetime import timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.config.policy import Policy
from rescheduler.controller.limits import Turns
from rescheduler.migrations.steps import Step
from rescheduler.model.migrations import Phase
from tests.unit.migrations.scenes import NOW, migration

POLICY = Policy(max_concurrent_migrations=3, max_concurrent_per_node=2, max_concurrent_per_workload=1)


def wish(number, *, source="a", target="b", step=Step.QUEUED, workload="", group=""):
    made = migration(step, key=f"shop/{number}", name=workload, created=NOW + timedelta(seconds=number))
    spec = msgspec.structs.replace(
        made.spec, source_node=source, target_node=target, group=group, group_size=9 if group else 0
    )
    status = msgspec.structs.replace(made.status, target_node="")
    return msgspec.structs.replace(made, spec=spec, status=status)


def turns(*wishes):
    return Turns(wishes, POLICY, lambda each: each.name)


def numbers(found):
    return [int(each.key.split("/")[1]) for each in found]


def test_the_first_to_come_is_the_first_to_go():
    wishes = [wish(number, source=f"s{number}", target=f"t{number}") for number in (5, 1, 4, 2, 3)]
    assert numbers(turns(*wishes).next_ones()) == [1, 2, 3]


def test_one_that_waits_for_its_node_holds_up_nobody_else():
    busy = [wish(1, step=Step.STARTING), wish(2, step=Step.STARTING)]
    assert numbers(turns(*busy, wish(3), wish(4, source="c", target="d")).next_ones()) == [4]


def test_one_pod_of_a_workload_at_a_time():
    same = [wish(number, source=f"s{number}", target=f"t{number}", workload="web") for number in (1, 2)]
    assert numbers(turns(*same).next_ones()) == [1]


def test_a_target_that_is_chosen_late_counts_as_well():
    busy = [wish(number, source=f"s{number}", target="hot", step=Step.STARTING) for number in (1, 2)]
    late = wish(3, source="c", target="")
    assert turns(*busy).allows(late)
    assert not turns(*busy).allows(late, "hot")


def test_a_group_that_has_begun_is_let_through_whole():
    begun = wish(1, step=Step.SETTLING, group="ring")
    rest = [wish(number, group="ring") for number in range(2, 9)]
    assert numbers(turns(begun, *rest).next_ones()) == list(range(2, 9))


wishes = st.lists(
    st.builds(
        wish,
        st.integers(0, 999),
        source=st.sampled_from("ab"),
        target=st.sampled_from("cde"),
        workload=st.sampled_from(["", "x", "y"]),
        step=st.sampled_from([Step.QUEUED, Step.QUEUED, Step.STARTING, Step.COMPLETED]),
    ),
    unique_by=lambda each: each.key,
)


@given(wishes)
def test_what_begins_never_exceeds_a_limit(known):
    begun = turns(*known).next_ones()
    running = [each for each in known if each.status.phase is Phase.IN_PROGRESS]
    if not begun:
        return
    under_way = running + begun
    assert len(under_way) <= POLICY.max_concurrent_migrations
    of_nodes = Counter(node for each in under_way for node in (each.spec.source_node, each.target_node))
    of_workloads = Counter(each.name for each in under_way if each.name)
    for each in begun:
        assert of_nodes[each.spec.source_node] <= POLICY.max_concurrent_per_node
        assert of_nodes[each.target_node] <= POLICY.max_concurrent_per_node
        assert not each.name or of_workloads[each.name] == 1


@given(wishes, st.randoms())
def test_the_order_of_asking_makes_no_difference(known, dice):
    shuffled = list(known)
    dice.shuffle(shuffled)
    assert numbers(turns(*known).next_ones()) == numbers(turns(*shuffled).next_ones())
