"""The placement compared with a snapshot in which the pods really run where they were placed."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.cluster.snapshot import NO_ROW, Snapshot
from rescheduler.rules.placement import Placement
from rescheduler.rules.pod_positions import PodNotOnNodeError
from rescheduler.rules.rule_check import SchedulerRule
from tests.building import ClusterBuilder, cluster
from tests.unit.rules.random_clusters import copy_of, random_cluster, with_pods

TODAY = "2026-03-02T12:00:00Z"
Step = tuple[str, int, int]
"""What to do, with which pod, on which node; the numbers are taken modulo those there are."""
Steps = list[Step]
SEEDS = st.integers(0, 100_000)
thorough = settings(max_examples=25, deadline=None, database=None)


@thorough
@given(seed=SEEDS)
def test_a_pod_fits_exactly_where_nothing_refuses_it(seed: int) -> None:
    placement = Placement(random_cluster(seed).snapshot())
    for pod in range(len(placement.snapshot.pods)):
        for source_stays in (True, False):
            fits = placement.fits(pod, source_stays=source_stays)
            for node, fit in enumerate(fits):
                refusals = placement.refusals(pod, node, source_stays=source_stays)
                assert fit == (not refusals) == placement.fits_on(pod, node, source_stays=source_stays)
                order = [list(SchedulerRule).index(refusal.rule) for refusal in refusals]
                assert order == sorted(set(order)), "each rule once, in the scheduler's order"


@thorough
@given(seed=SEEDS)
def test_without_its_source_a_pod_is_evaluated_as_if_it_were_not_there(seed: int) -> None:
    built = random_cluster(seed)
    snapshot = built.snapshot()
    placement = Placement(snapshot)
    for pod, record in enumerate(snapshot.pods.records):
        others = [other for other in snapshot.pods.records if other is not record]
        fresh = with_pods(built, [*others, copy_of(record, "")])
        expected = Placement(fresh).fits(fresh.pods.row[record.key], source_stays=True)
        assert same_elsewhere(placement, pod, placement.fits(pod, source_stays=False), expected)


@thorough
@given(seed=SEEDS)
def test_with_its_source_in_place_a_pod_is_evaluated_like_a_new_one_beside_it(seed: int) -> None:
    built = random_cluster(seed)
    snapshot = built.snapshot()
    placement = Placement(snapshot)
    for pod, record in enumerate(snapshot.pods.records):
        clone = copy_of(record, "", name="a-clone")
        fresh = with_pods(built, [*snapshot.pods.records, clone])
        expected = Placement(fresh).fits(fresh.pods.row[clone.key], source_stays=True)
        assert same_elsewhere(placement, pod, placement.fits(pod, source_stays=True), expected)


@dataclass
class Play:
    """What was done to a board, kept in the simplest way there is."""

    snapshot: Snapshot
    copies: dict[int, list[int]] = field(default_factory=dict)
    lifted: set[int] = field(default_factory=set)

    def standing(self, pod: int) -> list[int]:
        home = int(self.snapshot.pods.node[pod])
        at_home = home != NO_ROW and pod not in self.lifted
        return [home] * at_home + self.copies.get(pod, [])

    def do(self, placement: Placement, step: Step) -> None:
        act, pod, node = step[0], step[1] % len(self.snapshot.pods), step[2] % len(self.snapshot.nodes)
        if act == "place":
            placement.place(pod, node)
            self.copies.setdefault(pod, []).append(node)
        elif act == "lift" and (standing := self.standing(pod)):
            node = standing[node % len(standing)]
            placement.remove(pod, node)
            self._lift(pod, node)
        elif act == "move":
            placement.move(pod, node)
            if standing := self.standing(pod):
                self._lift(pod, standing[-1])
            self.copies.setdefault(pod, []).append(node)

    def outcome(self, built: ClusterBuilder) -> Snapshot:
        names = [node.name for node in self.snapshot.nodes.records]
        found = []
        for pod, record in enumerate(self.snapshot.pods.records):
            standing = self.standing(pod)
            if standing == [self.snapshot.pods.node[pod]] and pod not in self.lifted:
                found.append(record)
            elif not standing:
                found.append(record if pod not in self.lifted else copy_of(record, ""))
            else:
                # The pod itself comes first: with its own name and past, if it is still at home.
                itself = [record] if pod not in self.lifted and record.node and not record.is_finished else []
                copies = standing[len(itself) :]
                made = [
                    copy_of(record, names[node], name=f"{record.name}-{n}") for n, node in enumerate(copies)
                ]
                if not itself:
                    made[0] = copy_of(record, names[copies[0]])
                found += [*itself, *made]
        return with_pods(built, found)

    def _lift(self, pod: int, node: int) -> None:
        if pod not in self.lifted and self.snapshot.pods.node[pod] == node:
            self.lifted.add(pod)
        else:
            self.copies[pod].remove(node)


STEPS = st.lists(
    st.tuples(st.sampled_from(("place", "lift", "move", "move")), st.integers(0, 99), st.integers(0, 5)),
    max_size=12,
)


@thorough
@given(seed=SEEDS, asked_first=st.booleans(), steps=STEPS)
def test_after_any_moves_a_board_answers_like_one_of_the_outcome(
    seed: int, asked_first: bool, steps: Steps
) -> None:
    built = random_cluster(seed)
    snapshot = built.snapshot()
    placement, play = Placement(snapshot), Play(snapshot)
    if asked_first:  # tallies are made before the moves, or after them
        answers(placement)
    for step in steps:
        play.do(placement, step)
    outcome = play.outcome(built)
    fresh = Placement(outcome)
    assert np.array_equal(placement.requested, fresh.requested)
    assert np.array_equal(placement.load, fresh.load)
    for node in range(len(snapshot.nodes)):
        assert len(placement.pods_on(node)) == len(fresh.pods_on(node))
    for pod, record in enumerate(snapshot.pods.records):
        standing = play.standing(pod)
        assert placement.position[pod] == (standing[-1] if standing else NO_ROW)
        assert all(pod in placement.pods_on(node) for node in standing)
        twin = outcome.pods.row[record.key]
        for source_stays in (True, False) if len(standing) < 2 else (True,):
            mine = placement.fits(pod, source_stays=source_stays)
            theirs = fresh.fits(twin, source_stays=source_stays)
            assert not mine[standing].any()
            theirs[standing] = False
            assert np.array_equal(mine, theirs), record.key


@thorough
@given(seed=SEEDS, before=STEPS, tried=STEPS, deeper=STEPS)
def test_a_trial_leaves_no_trace(seed: int, before: Steps, tried: Steps, deeper: Steps) -> None:
    snapshot = random_cluster(seed).snapshot()
    placement, play = Placement(snapshot), Play(snapshot)
    for step in before:
        play.do(placement, step)
    untouched = traces(placement)
    with placement.trial():
        in_trial = Play(snapshot, {pod: [*nodes] for pod, nodes in play.copies.items()}, set(play.lifted))
        for step in tried:
            in_trial.do(placement, step)
        halfway = traces(placement)
        with pytest.raises(KeyError):
            try_and_fail(placement, in_trial, deeper)
        assert_same(traces(placement), halfway)
    assert_same(traces(placement), untouched)


def try_and_fail(placement: Placement, play: Play, steps: Steps) -> None:
    with placement.trial():
        for step in steps:
            play.do(placement, step)
        raise KeyError("whatever happens in a trial")


def test_a_pod_can_only_be_lifted_from_where_it_is() -> None:
    placement = Placement(cluster().nodes("a", "b").pod("shop/web", on="a").snapshot())
    with pytest.raises(PodNotOnNodeError, match="shop/web is not on b"):
        placement.remove(0, 1)
    assert placement.pods_on(0) == [0]


def test_a_pod_never_fits_where_it_already_is() -> None:
    placement = Placement(cluster().nodes("a", "b").pod("shop/web", on="a").snapshot())
    assert placement.fits(0, source_stays=False).tolist() == [False, True]
    (refusal,) = placement.refusals(0, 0, source_stays=False)
    assert refusal.rule is SchedulerRule.ALREADY_HERE
    placement.place(0, 1)
    assert not placement.fits(0, source_stays=False).any()


def test_a_trial_keeps_the_order_in_which_copies_were_placed() -> None:
    placement = Placement(cluster().nodes("a", "b", "c").pod("shop/web", on="a").snapshot())
    placement.place(0, 1)
    placement.place(0, 2)
    with placement.trial():
        placement.remove(0, 1)
    assert placement.position[0] == 2


BY_NODE = {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
WEBS = {"app": "web"}
SPREAD = {"topologySpreadConstraints": [BY_NODE | {"labelSelector": {"matchLabels": WEBS}}]}


@pytest.mark.parametrize(
    "asked_first", [pytest.param(True, id="asked before as well"), pytest.param(False, id="asked only then")]
)
def test_a_pod_that_is_being_deleted_takes_no_count_of_a_spread_with_it(asked_first: bool) -> None:
    shop = cluster().nodes("a", "b").pod("shop/ends", on="a", labels=WEBS, deleted=TODAY)
    shop.pod("shop/stays", on="a", labels=WEBS).pod("shop/web", labels=WEBS, spec=SPREAD)
    placement = Placement(shop.snapshot())
    if asked_first:
        placement.fits(2, source_stays=True)
    placement.remove(0, 0)
    assert placement.fits(2, source_stays=True).tolist() == [False, True]
    placement.place(0, 1)  # the copy is a new pod
    assert placement.fits(2, source_stays=True).tolist() == [True, True]


def test_the_copy_of_a_pod_that_was_being_deleted_is_excluded_like_any_other() -> None:
    shop = cluster().nodes("a", "b", "c").pod("shop/ends", on="a", labels=WEBS, spec=SPREAD, deleted=TODAY)
    placement = Placement(
        shop.pod("shop/one", on="a", labels=WEBS).pod("shop/two", on="c", labels=WEBS).snapshot()
    )
    placement.move(0, 1)
    assert placement.fits(0, source_stays=True).tolist() == [True, False, True]
    assert placement.fits(0, source_stays=False).tolist() == [False, False, False]


def test_a_copy_counts_for_what_its_spec_asks_and_the_pod_itself_for_what_it_holds() -> None:
    resizing = {"containerStatuses": [{"name": "app", "allocatedResources": {"cpu": "3"}}]}
    placement = Placement(
        cluster().nodes("a", "b").pod("shop/web", on="a", cpu="1", status=resizing).snapshot()
    )
    assert placement.requested[:, 0].tolist() == [3000, 0]
    placement.move(0, 1)
    assert placement.requested[:, 0].tolist() == [0, 1000]


def test_measured_usage_moves_with_the_pod() -> None:
    shop = cluster().nodes("a", "b").pod("shop/web", on="a", cpu="1").usage("shop/web", cpu_millis=250)
    placement = Placement(shop.snapshot())
    placement.move(0, 1)
    assert placement.load[:, 0].tolist() == [0, 250]


def answers(placement: Placement) -> list[list[bool]]:
    return [
        placement.fits(pod, source_stays=source_stays).tolist()
        for pod in range(len(placement.snapshot.pods))
        for source_stays in (True, False)
    ]


def traces(placement: Placement) -> list[object]:
    nodes = range(len(placement.snapshot.nodes))
    columns = (placement.requested, placement.load, placement.position)
    return [
        *(column.copy() for column in columns),
        [placement.pods_on(node) for node in nodes],
        answers(placement),
    ]


def assert_same(one: Sequence[object], other: Sequence[object]) -> None:
    for mine, theirs in zip(one, other, strict=True):
        assert np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs


def same_elsewhere(placement: Placement, pod: int, mine: np.ndarray, expected: np.ndarray) -> bool:
    """Ignore the pod's own node, which a placement always refuses."""
    elsewhere = np.arange(len(mine)) != placement.position[pod]
    return np.array_equal(mine[elsewhere], expected[elsewhere])


def test_room_is_left_for_a_pod_that_the_scheduler_has_nominated_to_a_node() -> None:
    built = cluster().node("a", cpu="8").node("b", cpu="8").pod("shop/web", on="a", cpu="2")
    snapshot = built.pod("shop/urgent", cpu="7", status={"nominatedNodeName": "b"}).snapshot()
    web, node_b = snapshot.pods.row["shop/web"], snapshot.nodes.row["b"]
    assert not Placement(snapshot).fits_on(web, node_b, source_stays=True)
    gone = cluster().node("a", cpu="8").node("b", cpu="8").pod("shop/web", on="a", cpu="2").snapshot()
    assert Placement(gone).fits_on(gone.pods.row["shop/web"], node_b, source_stays=True)
