"""Which migrations may start: within the limits, in fair order."""

from collections import Counter
from datetime import timedelta
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.api.podmigration import EVICTION, Handover
from rescheduler.config.policy import Policy
from rescheduler.migrations.controller.dispatcher import Dispatcher
from rescheduler.migrations.controller.fair_queue import FairQueue
from rescheduler.migrations.runtime_state import RuntimeState, RuntimeStateHolder
from rescheduler.migrations.transition_table import MigrationStep, phase_of
from tests.unit.migrations.observations import NOW, migration

POLICY = Policy(max_concurrent_migrations=3, max_concurrent_per_node=2, max_concurrent_per_workload=1)
LATER = NOW + timedelta(hours=1)


def queued_migration(
    number,
    *,
    namespace="shop",
    source="a",
    target="b",
    step=MigrationStep.QUEUED,
    group="",
    size=0,
    strategy="",
):
    """A migration; without nodes of its own it shares nothing with others but `a` and `b`."""
    made = migration(step, key=f"{namespace}/{number}", created=NOW + timedelta(seconds=number))
    spec = msgspec.structs.replace(
        made.spec,
        source_node=source,
        target_node=target,
        group=group,
        group_size=size,
        strategy=strategy or made.spec.strategy,
    )
    attempts = int(step is not MigrationStep.QUEUED)
    status = msgspec.structs.replace(made.status, target_node="", retry_at=None, attempts=attempts)
    uid = repr(spec)  # a spec never changes
    return msgspec.structs.replace(made, namespace=namespace, uid=uid, spec=spec, status=status)


def apart(number, **more):
    """Put it on nodes of its own."""
    return queued_migration(number, source=f"s{number}", target=f"t{number}", **more)


def at(step, known):
    has_begun = step is not MigrationStep.QUEUED
    status = msgspec.structs.replace(
        known.status,
        step=step,
        phase=phase_of(step),
        attempts=int(has_begun),
        handover=Handover.ADOPT if has_begun else None,
    )
    return msgspec.structs.replace(known, status=status)


def queue(policy=POLICY):
    return FairQueue(RuntimeStateHolder(RuntimeState(policy)))


def turns(*queued, policy=POLICY, workloads=None, pod_groups=None):
    made = queue(policy)
    for each in queued:
        put(made, each, workloads, pod_groups)
    return made


def put(to, each, workloads=None, pod_groups=None):
    to.put(each, (workloads or {}).get(each.key, ""), (pod_groups or {}).get(each.key, ""))


def granted(of, **more):
    return [int(key.split("/")[1]) for key in of.grant(LATER, **more)]


def test_the_first_to_come_is_the_first_to_go():
    assert granted(turns(*(apart(number) for number in (5, 1, 4, 2, 3)))) == [1, 2, 3]


def test_one_that_waits_for_its_node_does_not_block_others():
    busy = [
        queued_migration(1, step=MigrationStep.STARTING),
        queued_migration(2, step=MigrationStep.STARTING),
    ]
    assert granted(turns(*busy, queued_migration(3), queued_migration(4, source="c", target="d"))) == [4]


def test_one_pod_of_a_workload_at_a_time():
    same = [apart(1), apart(2)]
    assert granted(turns(*same, workloads={each.key: "web" for each in same})) == [1]


def test_a_target_that_is_chosen_late_counts_as_well():
    busy = [
        queued_migration(number, source=f"s{number}", target="hot", step=MigrationStep.STARTING)
        for number in (1, 2)
    ]
    known = turns(*busy, queued_migration(3, source="c", target=""))
    assert granted(known) == [3]
    assert known.has_room_at("shop/3", "cold")
    assert not known.has_room_at("shop/3", "hot")


# -- what happens to a turn


def test_one_that_ends_makes_room_for_the_next():
    begun = [apart(number, step=MigrationStep.STARTING) for number in (1, 2, 3)]
    known = turns(*begun, apart(4), apart(5))
    assert granted(known) == []
    known.put(at(MigrationStep.COMPLETED, begun[0]))
    assert known.is_freed
    assert granted(known) == [4]


def test_a_turn_lasts_until_it_is_used_or_given_back():
    known = turns(*(apart(number) for number in (1, 2, 3, 4)))
    assert granted(known) == [1, 2, 3]
    known.put(at(MigrationStep.MARKING, apart(1)))
    known.put(apart(2))
    assert known.has_turn("shop/2"), "nothing that matters has changed about it"
    known.hold("shop/3")
    assert not known.has_turn("shop/3")
    assert granted(known) == [4], "and not the one that gave it back"
    known.put(at(MigrationStep.COMPLETED, apart(4)))
    assert granted(known) == []
    known.ready("shop/3", LATER)
    assert granted(known) == [3]


def test_one_that_is_tried_again_later_waits_until_then():
    later = apart(1)
    status = msgspec.structs.replace(later.status, retry_at=LATER + timedelta(minutes=1))
    known = turns(msgspec.structs.replace(later, status=status), apart(2))
    assert granted(known) == [2]
    assert known.grant(LATER + timedelta(minutes=2)) == ["shop/1"]


def test_what_could_not_begin_is_looked_at_again_only_when_something_has_changed(monkeypatch):
    known = turns(*(apart(number) for number in range(1, 3)))
    asked = []

    def never(_state, migration, _now):
        asked.append(migration.key)
        return False

    with monkeypatch.context() as patched:
        patched.setattr(RuntimeState, "may_start", never)
        assert known.grant(LATER) == []
        assert known.grant(LATER) == []
    assert len(asked) == 1, "once per strategy, and not again"
    assert granted(known, everything=True) == [1, 2]


def test_a_new_policy_counts_from_then_on():
    runtime = RuntimeStateHolder(RuntimeState(POLICY))
    known = FairQueue(runtime)
    for number in range(1, 9):
        put(known, apart(number))
    assert granted(known) == [1, 2, 3]
    runtime.update(policy=Policy(max_concurrent_migrations=5))
    known.policy_changed()
    assert granted(known) == [4, 5]


# -- fair shares


def test_a_long_queue_of_one_namespace_does_not_keep_out_another():
    many = [apart(number, namespace="loud") for number in range(100)]
    known = turns(*many, apart(200, namespace="quiet"), apart(201, namespace="quiet"))
    assert known.grant(LATER) == ["loud/0", "quiet/200", "loud/1"]


def test_namespaces_take_turns():
    policy = Policy(max_concurrent_migrations=1)
    waiting = [apart(number, namespace=f"ns{number % 3}") for number in range(9)]
    known = turns(*waiting, policy=policy)
    order = []
    for _ in waiting:
        (key,) = known.grant(LATER)
        order.append(key.split("/")[0])
        known.remove(key)
    assert order == ["ns0", "ns1", "ns2"] * 3


def test_urgent_moves_begin_before_others():
    known = turns(apart(1), apart(2), apart(3, strategy="NodeMaintenance"))
    assert granted(known) == [3, 1, 2]


def test_urgent_moves_of_one_namespace_leave_others_their_share():
    many = [apart(number, namespace="loud", strategy="Manual") for number in range(100)]
    known = turns(*many, apart(200, namespace="quiet", strategy="LoadBalancing"))
    assert "quiet/200" in known.grant(LATER)


# -- groups


def members(*numbers, size=None, **more):
    return [queued_migration(number, group="ring", size=size or len(numbers), **more) for number in numbers]


def declared(*queued, by="pod_group"):
    return {each.key: by for each in queued}


def test_a_group_begins_as_a_whole():
    ring = members(1, 2, 3)
    known = turns(*ring[:2], pod_groups=declared(*ring))
    assert granted(known) == [], "one is missing"
    put(known, ring[2], pod_groups=declared(*ring))
    assert granted(known) == [1, 2, 3]


def test_a_group_for_which_there_is_no_room_does_not_begin_in_part():
    ring = members(2, 3, 4)
    assert granted(turns(apart(1), *ring, pod_groups=declared(*ring))) == [1]


def test_a_group_that_its_pods_declare_counts_once_per_node_and_workload():
    ring = members(1, 2, 3)
    workloads = {each.key: "web" for each in ring}
    assert granted(turns(*ring, pod_groups=declared(*ring), workloads=workloads)) == [1, 2, 3]


@pytest.mark.parametrize(
    "pod_groups", [{}, {"shop/1": "x", "shop/2": "y", "shop/3": "z"}], ids=["none", "others"]
)
def test_a_group_that_its_pods_do_not_declare_counts_one_by_one(pod_groups):
    ring = members(1, 2, 3)
    known = turns(*ring, pod_groups=pod_groups)
    assert granted(known) == []
    assert "maxConcurrentPerNode allows 2" in known.obstacle(ring[0])


def test_the_name_of_a_group_that_has_begun_opens_no_door():
    begun = members(1, 2, step=MigrationStep.SETTLING)
    late = [queued_migration(number, group="ring", size=2) for number in range(3, 9)]
    known = turns(*begun, *late, pod_groups=declared(*begun, *late))
    assert granted(known) == []
    assert not any(known.has_turn(each.key) for each in late)
    assert set(known.members(late[0])) == {"shop/1", "shop/2"}


def test_migrations_that_say_another_size_or_strategy_are_another_group():
    mixed = [*members(1, size=2), *members(2, size=3), *members(3, size=2, strategy="Other")]
    assert granted(turns(*mixed)) == []


def test_a_member_that_comes_back_from_a_postponement_still_has_its_place():
    ring = [apart(number, group="ring", size=2) for number in (1, 2)]
    known = turns(*ring, apart(3), apart(4))
    assert granted(known) == [1, 2, 3]
    known.put(at(MigrationStep.STARTING, ring[0]))
    status = msgspec.structs.replace(ring[1].status, retry_at=LATER + timedelta(minutes=1))
    known.put(msgspec.structs.replace(ring[1], status=status))
    assert known.has_turn("shop/2")
    assert granted(known) == [], "its slot is kept"


def test_a_group_whose_members_are_all_postponed_gives_its_slots_back():
    ring = [apart(number, group="ring", size=2) for number in (1, 2)]
    known = turns(*ring, apart(3), apart(4))
    assert granted(known) == [1, 2, 3]
    for each in ring:
        status = msgspec.structs.replace(each.status, retry_at=LATER + timedelta(minutes=1))
        known.put(msgspec.structs.replace(each, status=status))
    assert not known.has_turn("shop/1")
    assert granted(known) == [4]


def test_a_group_that_can_never_begin_says_which_limit_it_exceeds():
    ring = members(*range(1, 6))
    known = turns(*ring, pod_groups=declared(*ring))
    assert known.obstacle(ring[0]) == "maxConcurrentMigrations allows 3, and 5 are needed"


# -- whatever happens

NODES = "abc"
one = st.builds(
    queued_migration,
    st.integers(0, 40),
    namespace=st.sampled_from(["shop", "mill"]),
    source=st.sampled_from(NODES),
    target=st.sampled_from([*NODES, ""]),
    step=st.sampled_from(
        [
            MigrationStep.QUEUED,
            MigrationStep.QUEUED,
            MigrationStep.QUEUED,
            MigrationStep.STARTING,
            MigrationStep.COMPLETED,
        ]
    ),
    group=st.sampled_from(["", "", "g", "h"]),
    size=st.integers(0, 4),
)
changes = st.lists(
    st.tuples(
        one,
        st.sampled_from(["", "x", "y"]),
        st.sampled_from(["", "pod_group"]),
        st.sampled_from(["put", "remove", "hold"]),
    ),
    max_size=40,
)


def most_at_once(claims, names_of):
    """How many units share a name at most."""
    pairs = {(name, claim.unit) for claim in claims for name in names_of(claim)}
    return max(Counter(name for name, _ in pairs).values(), default=0)


@given(changes)
def test_what_begins_never_exceeds_a_limit(history):
    """Everything begins by a turn here: nothing is put in as running that had none."""
    known = queue()
    for each, workload, pod_group, what in history:
        if what == "remove":
            known.remove(each.key)
        elif what == "hold":
            known.hold(each.key)
        elif each.status.phase == "InProgress":
            if known.has_turn(each.key):
                before = known._entries[each.key]
                known.put(
                    at(MigrationStep.STARTING, before.migration), before.claim.workload, before.pod_group
                )
        elif not known.has_turn(each.key):
            known.put(each, workload, pod_group)
        known.grant(LATER)
        claims = list(known._slots._claims.values())
        assert len(claims) <= POLICY.max_concurrent_migrations
        assert most_at_once(claims, lambda claim: claim.nodes) <= POLICY.max_concurrent_per_node
        assert most_at_once(claims, lambda claim: {claim.workload} - {""}) <= 1
        pod_groups = {
            claim.unit: known._entries[key].pod_group for key, claim in known._slots._claims.items()
        }
        assert all(pod_group for unit, pod_group in pod_groups.items() if unit.startswith("GroupId")), (
            "only declared ones"
        )


@given(changes, st.randoms())
def test_the_order_of_asking_makes_no_difference(history, rng):
    latest = {each.key: (each, workload, pod_group) for each, workload, pod_group, _ in history}
    shuffled = list(latest.values())
    rng.shuffle(shuffled)
    found = []
    for order in (latest.values(), shuffled):
        known = queue()
        for each in order:
            known.put(*each)
        found.append(known.grant(LATER))
    assert found[0] == found[1]


@given(changes)
def test_what_is_kept_up_to_date_is_what_would_be_counted_again(history):
    known = queue()
    there = {}
    for each, workload, pod_group, what in history:
        if what == "remove":
            known.remove(each.key)
            there.pop(each.key, None)
        else:
            known.put(each, workload, pod_group)
            there[each.key] = each, workload, pod_group
    recounted = queue()
    for each in there.values():
        recounted.put(*each)
    assert known._slots._claims == recounted._slots._claims
    assert known.grant(LATER, everything=True) == recounted.grant(LATER)


def test_a_drain_of_a_hundred_pods_is_processed_in_order():
    """As many at a time as needed for the deadline, the oldest eviction first, before moves for balance."""
    drained = [
        queued_migration(number, source="drained", target="", strategy=EVICTION) for number in range(100)
    ]
    made = turns(apart(200), *drained, policy=Policy(max_concurrent_migrations=8))
    now, began = NOW + timedelta(seconds=100), []
    while turn := made.grant(now):
        assert len(turn) <= 8
        began += [int(key.split("/")[1]) for key in turn]
        for key in turn:
            made.remove(key)
    assert [number for number in began if number != 200] == [*range(100)]
    assert 200 not in began[:8]


def pending_copy(number, namespace="shop"):
    """A move on eviction whose copy waits for a node."""
    return queued_migration(
        number, namespace=namespace, target="", step=MigrationStep.PLACING, strategy=EVICTION
    )


class TestCopiesThatWaitForRoom:
    def test_hold_up_no_other_move(self):
        """Not even one from the same node, or to it."""
        waiting = [pending_copy(number) for number in range(3)]
        others = [queued_migration(number, target=f"t{number}") for number in (3, 4)]
        assert granted(turns(*waiting, *others)) == [3, 4]

    def test_hold_up_the_rest_of_their_workload(self):
        made = turns(pending_copy(1), apart(2), workloads={"shop/1": "web", "shop/2": "web"})
        assert granted(made) == []

    def test_free_their_slot_when_they_begin_to_wait(self):
        running = [apart(number, step=MigrationStep.STARTING) for number in range(2)]
        made = turns(*running, queued_migration(2, target="", strategy=EVICTION), apart(4))
        assert granted(made) == [2]
        made.put(pending_copy(2))
        assert granted(made) == [4]

    def test_are_limited_in_number_and_per_namespace(self):
        made = queue(Policy(max_concurrent_migrations=4))
        assert made.may_wait_for_room("shop")
        for number in range(2):
            made.put(pending_copy(number))
        assert not made.may_wait_for_room("shop"), "half of them are of one namespace"
        assert made.may_wait_for_room("bank")
        for number in range(2):
            made.put(pending_copy(number, "bank"))
        assert not made.may_wait_for_room("third")
        made.remove("shop/0")
        assert made.may_wait_for_room("third")


@pytest.mark.parametrize(
    ("age", "others_start"),
    [
        pytest.param(timedelta(minutes=20), False, id="while it may be rolled back"),
        pytest.param(timedelta(hours=1), True, id="when something keeps it from ending"),
    ],
)
def test_a_migration_that_never_ends_holds_its_turn_for_a_limited_time(age, others_start):
    """A tenant can have the writes that would end it refused."""
    old = at(MigrationStep.RELEASING, apart(1))
    old = msgspec.structs.replace(old, status=msgspec.structs.replace(old.status, started_at=NOW - age))
    known = {each.key: each for each in (old, apart(2))}
    watched = SimpleNamespace(
        migrations=SimpleNamespace(get=known.get),
        records=SimpleNamespace(migration=lambda each: each),
        pods=SimpleNamespace(get=lambda _: None),
        workloads={"ReplicaSet": {}, "Deployment": {}},
        is_fresh=True,
    )
    woken = []
    state = RuntimeStateHolder(RuntimeState(Policy(max_concurrent_migrations=1)))
    dispatcher = Dispatcher(watched, state, lambda: NOW, woken.append)
    for key in known:
        dispatcher.observe(key)
    dispatcher.dispatch()
    assert bool(woken) is others_start
