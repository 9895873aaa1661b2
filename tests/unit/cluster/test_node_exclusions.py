"""Node exclusions of rescheduler: exactly what was added is recognized and removed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.api.well_known_names import AVOIDED_NODES_ANNOTATION
from rescheduler.cluster.pod_constraints import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    avoided_nodes,
    encode_avoided_nodes,
    preferred_node_term,
    without_exclusions,
)
from tests.objects import with_exclusions

NOT_A, NOT_B = (NodeSelectorRequirement("metadata.name", "NotIn", (name,)) for name in "ab")

names = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, unique=True)
requirements = st.builds(
    NodeSelectorRequirement,
    key=st.sampled_from(["metadata.name", "zone"]),
    operator=st.sampled_from(["In", "NotIn"]),
    values=names.map(tuple),
)
several = st.lists(requirements, max_size=3).map(tuple)
terms = st.builds(NodeSelectorTerm, match_expressions=several, match_fields=several)
affinities = st.builds(
    Affinity,
    node_affinity=st.builds(
        NodeAffinity,
        required=st.one_of(
            st.none(), st.lists(terms, min_size=1, max_size=3).map(lambda found: NodeSelector(tuple(found)))
        ),
        preferred=st.just((PreferredSchedulingTerm(1),)),
    ),
    pod_anti_affinity=st.just(PodAffinity(required=(PodAffinityTerm("zone"),))),
)


@given(affinities, names)
def test_what_was_put_in_comes_out_again(affinity: Affinity, nodes: list[str]):
    steered = with_exclusions(affinity, nodes)
    assert without_exclusions(steered, {AVOIDED_NODES_ANNOTATION: encode_avoided_nodes(nodes)}) == affinity


@given(affinities)
def test_without_the_annotation_nothing_is_ours(affinity: Affinity):
    assert without_exclusions(affinity, {}) is affinity


def test_a_pod_without_node_affinity_gets_one_term():
    required = with_exclusions(Affinity(), ["a", "b"]).node_affinity.required
    assert required == NodeSelector((NodeSelectorTerm(match_fields=(NOT_A, NOT_B)),))


def test_each_excluded_node_has_its_own_requirement():
    """Kubernetes accepts one value per requirement of matchFields."""
    term = NodeSelectorTerm(match_expressions=(NodeSelectorRequirement("zone", "Exists"),))
    required = with_exclusions(
        Affinity(NodeAffinity(NodeSelector((term,)))), ["a", "b"]
    ).node_affinity.required
    assert required is not None
    assert required.node_selector_terms[0].match_fields == (NOT_A, NOT_B)


def test_a_preference_names_one_node_with_the_greatest_weight():
    wanted = NodeSelectorRequirement("metadata.name", "In", ("a",))
    assert preferred_node_term("a") == PreferredSchedulingTerm(100, NodeSelectorTerm(match_fields=(wanted,)))


def test_an_empty_term_stays_empty_because_it_matches_no_node():
    affinity = Affinity(NodeAffinity(NodeSelector((NodeSelectorTerm(),))))
    assert with_exclusions(affinity, ["a"]) == affinity


def test_an_exclusion_of_its_owner_stays_even_if_it_looks_like_ours():
    own = NodeSelectorRequirement("metadata.name", "NotIn", ("a",))
    affinity = Affinity(NodeAffinity(NodeSelector((NodeSelectorTerm(match_fields=(own,)),))))
    steered = with_exclusions(affinity, ["a"])
    assert without_exclusions(steered, {AVOIDED_NODES_ANNOTATION: encode_avoided_nodes(["a"])}) == affinity


@pytest.mark.parametrize(
    ("written", "nodes"),
    [
        pytest.param('["a","b"]', ("a", "b"), id="a list of names"),
        pytest.param("a,b", (), id="no JSON"),
        pytest.param('{"a":1}', (), id="no list"),
        pytest.param("[1]", (), id="no names"),
        pytest.param("", (), id="nothing"),
    ],
)
def test_an_annotation_that_can_t_be_read_is_not_ours(written: str, nodes: tuple[str, ...]):
    assert avoided_nodes({AVOIDED_NODES_ANNOTATION: written}) == nodes
