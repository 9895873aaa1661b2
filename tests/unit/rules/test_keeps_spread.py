"""No move makes the topology spread of the node that the pod leaves worse."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.rules.placement import Placement
from tests.building import ClusterBuilder, cluster

ZONE = "topology.kubernetes.io/zone"


def spread(max_skew: int = 1, key: str = ZONE, **more) -> dict:
    constraint = {
        "maxSkew": max_skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    return {"topologySpreadConstraints": [constraint | more]}


def zones(*counts: int, spec: dict | None = None, nodes_each: int = 1) -> ClusterBuilder:
    """Nodes a0, a1, …, b0, …: a letter for each zone, with so many pods on the first node of each."""
    made = cluster()
    for letter, count in zip("abcdef", counts, strict=False):
        for number in range(nodes_each):
            made.node(f"{letter}{number}", labels={ZONE: letter})
        for number in range(count):
            made.pod(f"shop/{letter}-{number}", on=f"{letter}0", labels={"app": "web"}, spec=spec or spread())
    return made


def kept_even(built: ClusterBuilder, pod: str) -> str:
    """Names of the nodes where its going leaves things even."""
    placement = Placement(built.snapshot())
    found = placement.keeps_spread(placement.snapshot.pods.row[pod])
    nodes = placement.snapshot.nodes.records
    return " ".join(node.name for node, even in zip(nodes, found, strict=True) if even)


def test_a_pod_of_the_emptiest_zone_stays_in_it():
    assert kept_even(zones(1, 1, 2, nodes_each=2), "shop/a-0") == "a0 a1"


def test_a_pod_of_a_fuller_zone_may_go_anywhere():
    assert kept_even(zones(2, 1, 2), "shop/a-0") == "a0 b0 c0"


def test_a_tolerant_constraint_allows_leaving_the_emptiest_zone():
    """The pod goes to a zone that is not too full."""
    assert kept_even(zones(2, 2, 3, spec=spread(2)), "shop/a-0") == "a0 b0"


def test_where_it_is_too_uneven_already_nothing_may_leave_the_emptiest_zone():
    assert kept_even(zones(1, 4, spec=spread(2), nodes_each=2), "shop/a-0") == "a0 a1"


def test_with_fewer_zones_than_there_should_be_the_emptiest_counts_as_empty_anyway():
    assert kept_even(zones(1, 1, spec=spread(minDomains=3)), "shop/a-0") == "a0 b0"


def test_a_pod_that_its_own_constraint_does_not_mean_leaves_nothing_behind():
    stranger = spread(labelSelector={"matchLabels": {"app": "other"}})
    assert kept_even(zones(1, 1, 2, spec=stranger), "shop/a-0") == "a0 b0 c0"


def test_a_preferred_constraint_restricts_nothing():
    constraints = spread(whenUnsatisfiable="ScheduleAnyway")
    assert kept_even(zones(1, 1, 2, spec=constraints), "shop/a-0") == "a0 b0 c0"


def test_every_constraint_of_its_own_counts():
    both = {
        "topologySpreadConstraints": [
            *spread()["topologySpreadConstraints"],
            *spread(key="kubernetes.io/hostname")["topologySpreadConstraints"],
        ]
    }
    # By zones it might go to a1, but then its node would be empty, and another has one.
    assert kept_even(zones(1, 1, spec=both, nodes_each=2), "shop/a-0") == "a0 a1"
    built = zones(2, 1, spec=both).pod("shop/a-9", on="a0", labels={"app": "web"}, spec=both)
    assert kept_even(built, "shop/a-0") == "a0 b0"


def test_a_pod_on_a_node_without_the_label_leaves_no_zone():
    built = zones(1, 1).node("nowhere").pod("shop/x", on="nowhere", labels={"app": "web"}, spec=spread())
    assert kept_even(built, "shop/x") == "a0 b0 nowhere"


def test_a_pod_without_a_node_leaves_nothing():
    built = zones(1, 1).pod("shop/x", labels={"app": "web"}, spec=spread())
    assert kept_even(built, "shop/x") == "a0 b0"


def test_it_sees_what_was_moved_on_the_board():
    placement = Placement(zones(2, 1, nodes_each=1).snapshot())
    pod, other = (placement.snapshot.pods.row[key] for key in ("shop/a-0", "shop/a-1"))
    assert placement.keeps_spread(pod).tolist() == [True, True]
    placement.move(other, placement.snapshot.nodes.row["b0"])
    assert placement.keeps_spread(pod).tolist() == [True, False]


@settings(max_examples=120, deadline=None)
@given(
    counts=st.lists(st.integers(0, 4), min_size=2, max_size=5),
    max_skew=st.integers(1, 4),
    source=st.integers(0, 4),
)
def test_it_is_as_one_counts_by_hand(counts, max_skew, source):
    counts[source % len(counts)] += 1
    placement = Placement(zones(*counts, spec=spread(max_skew)).snapshot())
    zone = source % len(counts)
    found = placement.keeps_spread(placement.snapshot.pods.row[f"shop/{'abcde'[zone]}-0"]).tolist()
    assert found == [_leaves_even(counts, max_skew, zone, target) for target in range(len(counts))]


def _leaves_even(counts: list[int], max_skew: int, source: int, target: int) -> bool:
    """Only who leaves the emptiest can make it emptier; then nothing may be too far above it."""
    if source == target or counts[source] > min(counts):
        return True
    after = [count + (zone == target) - (zone == source) for zone, count in enumerate(counts)]
    return max(after) - min(after) <= max_skew
