"""The patch of a reviewed pod has the intended effect and changes nothing else."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.api.podmigration import ControllerReference
from rescheduler.api.well_known_names import AVOIDED_NODES_ANNOTATION, STEERED_BY_ANNOTATION
from rescheduler.cluster.pod_constraints import Affinity, without_exclusions
from rescheduler.rules.node_affinity import NodeLabels, node_affinity
from rescheduler.steering.intents import Intent, IntentIndex
from rescheduler.steering.webhook.pod_mutation import answer_review
from tests.building import cluster
from tests.objects import with_exclusions
from tests.unit.steering.reviews import (
    OWNER,
    PREFERRED,
    REQUIRED,
    book_of,
    parse_response,
    patched,
    pod_of,
    review_of,
)

Json = dict[str, Any]


def steered(pod: Json, book: IntentIndex) -> Json:
    return patched(pod, answer_review(review_of(pod), book).body)


def node_affinity_of(pod: Json) -> Json:
    return pod["spec"]["affinity"]["nodeAffinity"]


def only(*nodes: str) -> list[Json]:
    return [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]


def preferring(node: str) -> Json:
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    return {"weight": 100, "preference": {"matchFields": fields}}


# -- what is put where


@pytest.mark.parametrize(
    "affinity",
    [
        pytest.param(None, id="no affinity"),
        pytest.param({}, id="an empty affinity"),
        pytest.param({"nodeAffinity": {}}, id="an empty node affinity"),
        pytest.param({"nodeAffinity": None}, id="a node affinity that is null"),
        pytest.param({"nodeAffinity": {REQUIRED: None, PREFERRED: None}}, id="parts that are null"),
    ],
)
def test_a_pod_that_asks_for_nothing_gets_one_term_and_one_preference(affinity: Any):
    made = steered(pod_of(affinity), book_of("a", "b", prefer="c"))
    assert node_affinity_of(made) == {
        REQUIRED: {"nodeSelectorTerms": [{"matchFields": only("a", "b")}]},
        PREFERRED: [preferring("c")],
    }


def test_an_affinity_that_is_null_is_as_none():
    pod = pod_of()
    pod["spec"]["affinity"] = None
    assert REQUIRED in node_affinity_of(steered(pod, book_of("a")))


def test_the_exclusion_goes_into_every_alternative():
    ssd = {"key": "disk", "operator": "In", "values": ["ssd"]}
    own = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    terms = [
        {"matchExpressions": [ssd]},
        {"matchFields": [own]},
        {"matchExpressions": [ssd], "matchFields": None},
    ]
    pod = pod_of({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})
    assert node_affinity_of(steered(pod, book_of("a")))[REQUIRED]["nodeSelectorTerms"] == [
        {"matchExpressions": [ssd], "matchFields": only("a")},
        {"matchFields": [own, *only("a")]},
        {"matchExpressions": [ssd], "matchFields": only("a")},
    ]


@pytest.mark.parametrize("empty", [{}, {"matchFields": []}, {"matchExpressions": None}], ids=str)
def test_an_empty_alternative_stays_empty_because_it_matches_no_node(empty: Json):
    pod = pod_of({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [empty]}}})
    assert node_affinity_of(steered(pod, book_of("a")))[REQUIRED]["nodeSelectorTerms"] == [empty]


def test_preferences_that_are_there_stay_in_front():
    theirs = {"weight": 3, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}
    made = steered(pod_of({"nodeAffinity": {PREFERRED: [theirs]}}), book_of("a", prefer="c"))
    assert node_affinity_of(made)[PREFERRED] == [theirs, preferring("c")]


def test_annotations_say_what_was_done_and_on_whose_behalf():
    for annotations in (None, {}, {"mine": "1"}):
        made = steered(pod_of(annotations=annotations), book_of("a", "b"))
        reported = {AVOIDED_NODES_ANNOTATION: '["a","b"]', STEERED_BY_ANNOTATION: "move-1"}
        assert made["metadata"]["annotations"] == (annotations or {}) | reported


def test_an_intent_without_target_or_exclusions():
    """Without a target nothing is preferred, and without exclusions nothing is required."""
    assert set(node_affinity_of(steered(pod_of(), book_of("a")))) == {REQUIRED}
    made = steered(pod_of(), book_of(prefer="c"))
    assert set(node_affinity_of(made)) == {PREFERRED}
    assert set(made["metadata"]["annotations"]) == {STEERED_BY_ANNOTATION}


def test_unknown_fields_are_kept():
    affinity = {
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{}], "new": 1}], "new": 2}},
        "podAffinity": {"new": 3},
        "new": 4,
    }
    made = steered(pod_of(affinity), book_of("a"))["spec"]["affinity"]
    del made["nodeAffinity"][REQUIRED]["nodeSelectorTerms"][0]["matchFields"]
    assert made == affinity


# -- who is steered


@pytest.mark.parametrize(
    ("pod", "request_"),
    [
        pytest.param(pod_of(ownerReferences=[]), {}, id="with an empty list of owners"),
        pytest.param(pod_of(ownerReferences=None), {}, id="without owners"),
        pytest.param(pod_of(ownerReferences=[{**OWNER, "uid": "rs-2"}]), {}, id="of another workload"),
        pytest.param(
            pod_of(ownerReferences=[{**OWNER, "controller": False}]), {}, id="owned but not controlled"
        ),
        pytest.param(pod_of(), {"namespace": "other"}, id="in another namespace"),
        pytest.param(pod_of(), {"operation": "UPDATE"}, id="that is there already"),
        pytest.param(pod_of(), {"subResource": "ephemeralcontainers"}, id="of which a part is written"),
        pytest.param(pod_of(), {"kind": {"group": "apps", "kind": "Pod"}}, id="of another group"),
        pytest.param(pod_of(), {"kind": {"group": "", "kind": "Node"}}, id="that is none"),
        pytest.param(pod_of() | {"spec": {"nodeName": "n"}}, {}, id="that comes with its node"),
        pytest.param(
            pod_of({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}), {}, id="that is invalid anyway"
        ),
    ],
)
def test_a_pod_is_left_alone(pod: Json, request_: Json):
    answered = answer_review(review_of(pod, **request_), book_of("a", prefer="c"))
    assert parse_response(answered.body) == ("review-1", [])
    assert answered.steered is None


def test_without_intents_nothing_is_touched():
    assert parse_response(answer_review(review_of(pod_of()), IntentIndex()).body) == ("review-1", [])


def test_a_dry_run_is_answered_like_any_other_and_said_to_be_one():
    real, dry = (answer_review(review_of(pod_of(), dryRun=each), book_of("a")) for each in (False, True))
    assert real.body == dry.body
    assert real.steered is not None
    assert dry.steered is not None
    assert (real.steered.is_dry_run, dry.steered.is_dry_run) == (False, True)


# -- asked again


def test_a_pod_that_comes_again_unchanged_stays_so():
    book = book_of("a", "b", prefer="c")
    for affinity in (None, {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": only("a")}]}}}):
        once = steered(pod_of(affinity), book)
        assert parse_response(answer_review(review_of(once), book).body) == ("review-1", [])


def test_an_alternative_that_another_webhook_has_added_gets_the_exclusion_too():
    book = book_of("a", prefer="c")
    once = steered(pod_of(), book)
    theirs = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    node_affinity_of(once)[REQUIRED]["nodeSelectorTerms"].append(dict(theirs))
    terms = node_affinity_of(steered(once, book))[REQUIRED]["nodeSelectorTerms"]
    assert terms == [{"matchFields": only("a")}, {**theirs, "matchFields": only("a")}]


def test_what_another_webhook_has_thrown_away_is_put_in_again():
    book = book_of("a", prefer="c")
    once = steered(pod_of(), book)
    once["spec"]["affinity"] = {"podAffinity": {}}
    assert node_affinity_of(steered(once, book)) == node_affinity_of(steered(pod_of(), book))


def test_when_more_is_known_meanwhile_the_pod_gets_no_more_than_its_annotation_says():
    once = steered(pod_of(), book_of("a", prefer="c"))
    assert parse_response(answer_review(review_of(once), book_of("a", "b", prefer="c")).body) == (
        "review-1",
        [],
    )


def test_annotations_of_another_time_count_for_nothing():
    own = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": only("a")}]}}}
    pod = pod_of(own, annotations={AVOIDED_NODES_ANNOTATION: '["a"]', STEERED_BY_ANNOTATION: "long-ago"})
    made = steered(pod, book_of("a"))
    assert made["metadata"]["annotations"] == {
        AVOIDED_NODES_ANNOTATION: '["a"]',
        STEERED_BY_ANNOTATION: "move-1",
    }
    # What is in its template is its owner's constraint; ours is put beside it, and removed again alone.
    assert node_affinity_of(made)[REQUIRED]["nodeSelectorTerms"] == [{"matchFields": only("a", "a")}]


# -- what it means, for any affinity

NODES = ("a", "b", "c", "d")
_values = st.sampled_from(["1", "2"])
_expressions = st.one_of(
    st.fixed_dictionaries(
        {"key": st.sampled_from(["x", "y"]), "operator": st.sampled_from(["In", "NotIn"]),
         "values": st.lists(_values, min_size=1, max_size=2)}
    ),
    st.fixed_dictionaries(
        {"key": st.sampled_from(["x", "y"]), "operator": st.sampled_from(["Exists", "DoesNotExist"])}
    ),
)  # fmt: skip
_fields = st.fixed_dictionaries(
    {"key": st.just("metadata.name"), "operator": st.sampled_from(["In", "NotIn"]),
     "values": st.sampled_from(NODES).map(lambda node: [node])}
)  # fmt: skip
_terms = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(_expressions, max_size=2),
        "matchFields": st.lists(_fields, max_size=2),
    },
)
_required = st.fixed_dictionaries({"nodeSelectorTerms": st.lists(_terms, min_size=1, max_size=3)})
_preferred = st.lists(
    st.fixed_dictionaries({"weight": st.integers(1, 100), "preference": _terms}), max_size=2
)
_affinities = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {},
        optional={
            "nodeAffinity": st.fixed_dictionaries({}, optional={REQUIRED: _required, PREFERRED: _preferred}),
            "podAntiAffinity": st.just({}),
        },
    ),
)
_avoided = st.lists(st.sampled_from(NODES), min_size=1, max_size=3, unique=True)
NODE_LABELS = NodeLabels(
    cluster()
    .node("a", labels={"x": "1"})
    .node("b", labels={"x": "2", "y": "1"})
    .node("c", labels={"y": "2"})
    .node("d")
    .snapshot()
    .nodes
)


def as_model(pod: Json) -> Affinity:
    return msgspec.convert(pod["spec"].get("affinity") or {}, Affinity)


def matching(pod: Json) -> set[str]:
    """The nodes that our own rule lets the pod on to."""
    checked_by_rule = node_affinity((), as_model(pod).node_affinity.required, NODE_LABELS)
    allowed = np.ones(len(NODE_LABELS), bool) if checked_by_rule is None else checked_by_rule.passes
    return {record.name for record, fits in zip(NODE_LABELS.records, allowed, strict=True) if fits}


@given(_affinities, _avoided, st.sampled_from(["", *NODES]))
def test_a_node_matches_afterwards_if_it_matched_before_and_is_not_avoided(
    affinity: Any, avoid: list[str], prefer: str
):
    pod = pod_of(affinity)
    made = steered(pod, book_of(*avoid, prefer=prefer))
    assert matching(made) == matching(pod) - set(avoid)


@given(_affinities, _avoided, st.sampled_from(["", *NODES]))
def test_what_was_there_is_there_and_what_is_ours_can_be_taken_out(
    affinity: Any, avoid: list[str], prefer: str
):
    pod = pod_of(affinity)
    made = steered(pod, book_of(*avoid, prefer=prefer))
    before, after = as_model(pod), as_model(made)
    assert after.node_affinity.required == with_exclusions(before, sorted(avoid)).node_affinity.required
    cleared = without_exclusions(after, made["metadata"]["annotations"])
    assert cleared.node_affinity.required == before.node_affinity.required
    count = len(before.node_affinity.preferred)
    assert after.node_affinity.preferred[:count] == before.node_affinity.preferred
    assert len(after.node_affinity.preferred) == count + bool(prefer and prefer not in avoid)
    assert made["spec"]["containers"] == pod["spec"]["containers"]


@given(_affinities, _avoided)
def test_asked_any_number_of_times_the_answer_is_as_after_once(affinity: Any, avoid: list[str]):
    book = book_of(*avoid, prefer="d")
    once = steered(pod_of(affinity), book)
    assert steered(once, book) == once


# -- after failed attempts


def after_failures(*nodes: str) -> IntentIndex:
    owner = ControllerReference("apps/v1", "ReplicaSet", "web", "rs-1")
    return IntentIndex([Intent("shop", owner, None, "", (), "", tried=nodes)])


def test_a_pod_avoids_the_nodes_of_failed_attempts():
    """Other pods of its workload failed there. No migration is named."""
    made = steered(pod_of(), after_failures("b", "a"))
    assert node_affinity_of(made) == {REQUIRED: {"nodeSelectorTerms": [{"matchFields": only("a", "b")}]}}
    assert made["metadata"]["annotations"] == {AVOIDED_NODES_ANNOTATION: '["a","b"]'}


@given(_affinities, st.lists(st.sampled_from(NODES), unique=True, min_size=1))
def test_asked_again_it_gets_nothing_twice_even_if_it_has_failed_elsewhere_since(
    affinity: Any, nodes: list[str]
):
    once = steered(pod_of(affinity), after_failures(*nodes))
    assert steered(once, after_failures(*nodes)) == once
    assert steered(once, after_failures(*nodes, "later")) == once


@pytest.mark.parametrize("terms", [1, 40, 1_000, 20_000])
def test_what_tenants_write_does_not_multiply(terms: int):
    """Terms and records of failed attempts are theirs, and every term gets every exclusion."""
    exists = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    pod = pod_of({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [exists] * terms}}})
    body = answer_review(review_of(pod), after_failures(*(f"node-{number}" for number in range(4_000)))).body
    assert len(body) < 400_000


def test_where_not_all_exclusions_fit_those_of_a_migration_come_first():
    exists = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    pod = pod_of({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [exists] * 1_000}}})
    owner = ControllerReference("apps/v1", "ReplicaSet", "web", "rs-1")
    tried = tuple(f"node-{number}" for number in range(100))
    book = IntentIndex([Intent("shop", owner, None, "", ("source",), "move-1", tried=tried)])
    made = steered(pod, book)
    terms = node_affinity_of(made)[REQUIRED]["nodeSelectorTerms"]
    assert all(term["matchFields"] == only("node-0", "source") for term in terms)
    assert json.loads(made["metadata"]["annotations"][AVOIDED_NODES_ANNOTATION]) == ["node-0", "source"]


# -- whatever comes in

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.binary() | _json.map(lambda value: json.dumps(value).encode()))
def test_anything_at_all_is_allowed(body: bytes):
    parse_response(answer_review(body, book_of("a", prefer="c")).body)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in _places(each, (*path, key)))]


FULL = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": only("z")}]}, PREFERRED: [{}]}}
REVIEW = json.loads(
    review_of(pod_of(FULL, annotations={STEERED_BY_ANNOTATION: "move-1", AVOIDED_NODES_ANNOTATION: '["a"]'}))
)


@given(st.sampled_from([place for place in _places(REVIEW) if place]), st.just(...) | _json)
def test_a_review_with_any_part_exchanged_or_missing_is_allowed_under_its_uid(
    place: tuple[Any, ...], by: Any
):
    review = json.loads(json.dumps(REVIEW))
    holder = review
    for key in place[:-1]:
        holder = holder[key]
    if by is ...:
        del holder[place[-1]]
    else:
        holder[place[-1]] = by
    uid, _ = parse_response(answer_review(json.dumps(review).encode(), book_of("a", prefer="c")).body)
    asked = review.get("request")
    known = asked.get("uid") if isinstance(asked, dict) else None
    assert uid == (known if isinstance(known, str) else "")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" * 100_000, id="nested without end"),
        pytest.param(b'{"request":{"uid":"\\ud800"}}', id="half a character"),
        pytest.param(b'{"request":{"uid":"a"}}\xff', id="no text"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_hostile_bytes_are_answered(body: bytes):
    parse_response(answer_review(body, IntentIndex()).body)
