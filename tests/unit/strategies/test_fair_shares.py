"""No namespace uses up what others need: the rule itself, and in plans."""

from collections import Counter
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.config.policy import Policy
from rescheduler.planner.plan_builder import build_plan
from rescheduler.planner.reasons import Reason
from rescheduler.strategies.fair_shares import (
    NOTHING_QUEUED,
    NamespaceTurns,
    QueuedMigrations,
    interleave_namespaces,
    reserved_slots,
    share_of_each,
)
from rescheduler.strategies.strategy_registry import strategies_of
from tests.building import cluster
from tests.failing_pods import crashing

THREE = {"scheduling-retries": "3"}
NAMES = st.sampled_from(["a", "b", "c", "d"])
COUNTS = st.dictionaries(NAMES, st.integers(0, 12))


def namespaces(waiting, queued):
    return len({*(name for name, count in waiting.items() if count), *queued})


def played(waiting, queued, slots, *, refused=frozenset(), first=0):
    """What each namespace got, and what it still waits for."""
    items = {name: [f"{name}/{number}" for number in range(count)] for name, count in waiting.items()}
    share = share_of_each(slots, namespaces(waiting, queued))
    turns = NamespaceTurns(
        items, queued, slots=slots, free=slots - sum(queued.values()), share=share, first=first
    )
    taken = []
    asked = set()
    while (item := turns.next()) is not None:
        asked.add(item)
        turns.answer(0 if item in refused else 1)
        taken += [item] * (item not in refused)
    left = Counter(item[0] for of_it in items.values() for item in of_it if item not in asked)
    return taken, left


@given(COUNTS, COUNTS, st.integers(0, 12), st.sets(st.tuples(NAMES, st.integers(0, 12))), st.integers(0, 9))
def test_no_namespace_gets_less_than_its_share_while_another_gets_more(waiting, queued, slots, no, first):
    taken, left = played(
        waiting, queued, slots, refused={f"{name}/{number}" for name, number in no}, first=first
    )
    got = Counter(item[0] for item in taken)
    has = {name: got[name] + queued.get(name, 0) for name in "abcd"}
    assert len(taken) <= slots, "never more than the plan may have"
    assert len(set(taken)) == len(taken)
    for name in left:
        richer = [other for other in got if got[other] and has[other] > has[name] + 1]
        assert not richer, f"{richer} had more already, and still got some while {name} waits"
        share = share_of_each(slots, namespaces(waiting, queued))
        assert has[name] >= share or len(taken) == slots, (
            "its share is guaranteed, whatever others have queued"
        )
    if left:
        free = slots - sum(queued.values())
        assert len(taken) >= free, "nothing is left unused while a pod waits"


@given(COUNTS, COUNTS, st.integers(0, 12))
def test_the_same_input_gives_the_same_turns(waiting, queued, slots):
    assert played(waiting, queued, slots) == played(dict(reversed(waiting.items())), queued, slots)


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 12))
def test_one_namespace_alone_gets_all_that_is_free_in_its_own_order(count, queued, slots):
    taken, _ = played({"a": count}, {"a": queued}, slots)
    assert taken == [f"a/{number}" for number in range(count)][: max(0, slots - queued)]


def test_where_there_are_more_namespaces_than_moves_each_comes_first_in_its_turn():
    waiting = dict.fromkeys("abcdef", 3)
    served = [played(waiting, {}, 2, first=2 * check)[0] for check in range(3)]
    assert served == [["a/0", "b/0"], ["c/0", "d/0"], ["e/0", "f/0"]]


@given(st.lists(st.tuples(NAMES, st.integers())), st.integers(0, 9))
def test_taking_turns_keeps_every_item_and_the_order_within_a_namespace(items, first):
    found = interleave_namespaces(items, lambda item: item[0], first=first)
    for name in "abcd":
        assert [each for each in found if each[0] == name] == [each for each in items if each[0] == name]
    places = {name: [place for place, each in enumerate(found) if each[0] == name] for name in "abcd"}
    for name, own in places.items():
        for other, others in places.items():
            if other != name and len(others) >= len(own) > 1:
                assert all(any(a < b < c for b in others) for a, c in pairwise(own))


# --- in plans


def failing(*deployments, nodes=8, maintenance=()):
    """Each (`namespace/name`, replicas) crashes on node `bad`."""
    made = cluster().node("bad", cpu="64", pods=300)
    for number in range(nodes):
        made.node(f"n{number}", cpu="64", pods=300)
    for key, replicas in deployments:
        made.deployment(key, replicas=replicas, on=["bad"], annotations=THREE, **crashing())
    for name in maintenance:
        made.node(name, labels={"scheduler.alpha.kubernetes.io/maintenance": "true"}, cordoned=True)
    return made


def planned(made, queue=NOTHING_QUEUED, held=frozenset(), **policy):
    chosen = Policy(min_pod_age=timedelta(), **policy)
    return build_plan(
        made.snapshot(), chosen, strategies_of(chosen), steered=True, queues=[queue], held_namespaces=held
    )


def by_namespace(found):
    return Counter(move.pod.partition("/")[0] for move in found.moves)


def test_one_namespace_with_many_failing_pods_does_not_keep_others_waiting():
    made = failing(("greedy/web", 30), ("bank/api", 3), ("shop/db", 2))
    assert by_namespace(planned(made)) == {"greedy": 5, "bank": 3, "shop": 2}


def test_alone_it_gets_everything():
    made = failing(("greedy/web", 30))
    assert by_namespace(planned(made)) == {"greedy": 10}


def test_a_client_that_has_to_wait_sees_why():
    found = planned(failing(("greedy/web", 30), ("bank/api", 3)))
    assert found.refused_counts[Reason.PLAN_FULL] == 23


def test_what_waits_in_the_queue_counts_for_its_own_namespace():
    made = failing(("greedy/web", 30), ("bank/api", 3))
    assert by_namespace(planned(made, QueuedMigrations({"greedy": 10}))) == {"bank": 3}
    assert by_namespace(planned(failing(("greedy/web", 30)), QueuedMigrations({"greedy": 8}))) == {
        "greedy": 2
    }


def test_failing_pods_leave_half_of_the_moves_to_maintenance():
    made = failing(("greedy/web", 30), maintenance=["old"])
    made.deployment("bank/api", replicas=20, on=["old"])
    found = planned(made, enabled_strategies=("NodeMaintenance",))
    assert Counter(move.strategy for move in found.moves) == {"FailedPods": 5, "NodeMaintenance": 5}


@pytest.mark.parametrize("waiting", [10, 1000])
def test_maintenance_gets_its_share_however_many_migrations_of_others_wait(waiting):
    made = failing(("greedy/web", 30), maintenance=["old"])
    made.deployment("bank/api", replicas=20, on=["old"])
    found = planned(made, QueuedMigrations({"greedy": waiting}), enabled_strategies=("NodeMaintenance",))
    assert by_namespace(found) == {"bank": 5}
    again = planned(
        made, QueuedMigrations({"greedy": waiting, "bank": 5}, 5), enabled_strategies=("NodeMaintenance",)
    )
    assert not again.moves, "what it has asked for already counts"


def test_maintenance_gets_its_share_also_where_balance_takes_precedence():
    made = cluster().node("full", cpu="64", pods=300)
    made.deployment("greedy/web", replicas=40, on=["full"], cpu="1")
    for number in range(8):
        made.node(f"n{number}", cpu="64", pods=300)
    made.node("old", labels={"scheduler.alpha.kubernetes.io/maintenance": "true"}, cordoned=True)
    made.deployment("bank/api", replicas=20, on=["old"])
    found = planned(made, enabled_strategies=("LoadBalancing", "NodeMaintenance"))
    assert Counter(move.strategy for move in found.moves) == {"LoadBalancing": 5, "NodeMaintenance": 5}


def test_what_maintenance_does_not_need_is_for_failing_pods():
    made = failing(("greedy/web", 30), maintenance=["old"])
    made.deployment("bank/api", replicas=2, on=["old"])
    found = planned(made, enabled_strategies=("NodeMaintenance",))
    assert Counter(move.strategy for move in found.moves) == {"FailedPods": 8, "NodeMaintenance": 2}


def test_what_is_left_over_is_shared_in_the_same_way():
    made = failing(("greedy/web", 30), ("bank/api", 30), maintenance=["old"])
    made.deployment("bank/calm", replicas=2, on=["old"])
    found = planned(made, enabled_strategies=("NodeMaintenance",))
    assert Counter(move.strategy for move in found.moves) == {"FailedPods": 8, "NodeMaintenance": 2}
    assert by_namespace(found) == {"greedy": 4, "bank": 6}


def test_namespaces_share_the_moves_of_maintenance():
    """Not all pods of the nodes in maintenance can be moved at once."""
    made = failing(maintenance=["old"])
    made.deployment("a/big", replicas=30, on=["old"])
    made.deployment("b/small", replicas=3, on=["old"])
    found = planned(made, enabled_strategies=("NodeMaintenance",))
    assert by_namespace(found) == {"a": 7, "b": 3}


def test_pods_of_a_namespace_that_is_held_back_stay_and_all_others_move():
    made = failing(("greedy/web", 3), ("bank/api", 3))
    found = planned(made, held=frozenset({"greedy"}))
    assert by_namespace(found) == {"bank": 3}
    assert {each.reason for each in found.refused if each.subject.startswith("greedy/")} == {
        Reason.NAMESPACE_HELD
    }


def test_reserved_slots_are_half_and_never_none():
    assert [reserved_slots(slots) for slots in (1, 2, 3, 10)] == [1, 1, 2, 5]
