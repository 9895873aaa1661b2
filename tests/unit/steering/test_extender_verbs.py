"""The extender's responses match what the webhook would add to the pod."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.api.podmigration import ControllerReference
from rescheduler.api.well_known_names import AVOIDED_NODES_ANNOTATION, STEERED_BY_ANNOTATION
from rescheduler.steering.extender_verbs import filter_nodes, prioritize_nodes
from rescheduler.steering.intents import Intent, IntentIndex
from rescheduler.steering.webhook.pod_mutation import answer_review
from tests.unit.steering.extender_requests import Verdict, node_object, question, scores_of, verdict_of
from tests.unit.steering.reviews import PREFERRED, REQUIRED, book_of, patched, pod_of, review_of

OWNER = ControllerReference("apps/v1", "ReplicaSet", "web", "rs-1")


def tried(*nodes: str, pod_name: str | None = None) -> Intent:
    return Intent("shop", OWNER, pod_name, "", (), "", tried=nodes)


def moved(*avoid: str, prefer: str = "", cause: str = "move-1") -> Intent:
    return Intent("shop", OWNER, None, prefer, avoid, cause)


def filtered(body: bytes, *intents: Intent) -> Verdict:
    return verdict_of(filter_nodes(body, IntentIndex(intents)).body)


def prioritized(body: bytes, *intents: Intent, **more: Any) -> dict[str, int]:
    return scores_of(prioritize_nodes(body, IntentIndex(intents), **more).body)


# -- filter


def test_the_source_node_is_filtered_out():
    """Preemption on it would change nothing."""
    found = filtered(question("a", "old", "c"), moved("old"))
    assert found.kept == ["a", "c"]
    assert found.failed == {"old": "node(s) that rescheduler is moving pods of this workload away from"}


def test_whole_nodes_come_back_as_they_came():
    found = filtered(question("a", "old", "c", whole=True), moved("old"))
    assert found.names is None
    assert found.nodes == [node_object("a"), node_object("c")]


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(pod_of(name="web-1", namespace="other"), id="in another namespace"),
        pytest.param(pod_of(name="web-1", ownerReferences=[]), id="without an owner"),
        pytest.param(pod_of(name="web-1", ownerReferences=[{"uid": "rs-1"}]), id="owned, but not controlled"),
    ],
)
def test_pods_that_nothing_concerns_keep_all_nodes(pod: Any):
    body = question("a", "old", pod=pod)
    assert filtered(body, moved("old", prefer="a")).kept == ["a", "old"]
    assert prioritized(body, moved("old", prefer="a")) == {}


def test_only_the_excluded_node_is_left():
    """The pod waits until the intent is withdrawn."""
    assert filtered(question("old"), moved("old")).kept == []


def test_nodes_where_it_kept_failing_are_taken_out_while_there_is_another():
    found = filtered(question("a", "bad", "worse"), tried("bad", "worse"))
    assert found.kept == ["a"]
    assert set(found.failed.values()) == {"node(s) on which the pod failed before"}


def test_better_where_it_failed_before_than_nowhere():
    found = filter_nodes(question("bad", "worse"), IntentIndex([tried("bad", "worse", "full")]))
    assert verdict_of(found.body).kept == ["bad", "worse"]
    assert verdict_of(found.body).failed == {}
    assert found.dropped == ("bad", "worse")


def test_but_not_where_it_is_moved_away_from():
    found = filtered(question("bad", "old"), tried("bad"), moved("old"))
    assert found.kept == ["bad"]
    assert set(found.failed) == {"old"}


def test_a_named_pod_s_tries_are_its_own():
    body = question("bad", "a", pod=pod_of(name="db-0"))
    assert filtered(body, tried("bad", pod_name="db-0")).kept == ["a"]
    assert filtered(body, tried("bad", pod_name="db-1")).kept == ["bad", "a"]


# -- prioritize


def test_its_target_gets_the_greatest_score_and_the_others_nothing():
    assert prioritized(question("a", "new", "c"), moved("old", prefer="new")) == {"new": 10}
    assert prioritized(question("a", "new", whole=True), moved("old", prefer="new")) == {"new": 10}


@pytest.mark.parametrize(
    "intent",
    [
        pytest.param(moved("old", prefer="full"), id="a target that is not among them"),
        pytest.param(moved("old"), id="no target"),
        pytest.param(tried("bad"), id="failed attempts only"),
    ],
)
def test_otherwise_there_is_nothing_to_say(intent: Intent):
    assert prioritized(question("a", "new"), intent) == {}


def test_the_target_that_a_pod_was_steered_to_stays_its_target():
    intents = (moved("old", prefer="new-1", cause="m-1"), moved("old", prefer="new-2", cause="m-2"))
    used = {"shop/m-1": 5, "shop/m-2": 1}
    body = question("new-1", "new-2")
    assert prioritized(body, *intents, used=used) == {"new-2": 10}
    assert prioritized(body, *intents, used=used, given={"p-1": "m-1"}) == {"new-1": 10}
    marked = question("new-1", "new-2", annotations={STEERED_BY_ANNOTATION: "m-1"})
    assert prioritized(marked, *intents, used=used) == {"new-1": 10}


# -- the same answers as the webhook's

NODES = ("a", "b", "c", "d", "e")
_nodes = st.lists(st.sampled_from(NODES), unique=True, max_size=3)
_intents = st.lists(
    st.builds(
        lambda avoid, failed, prefer, cause: Intent(
            "shop", OWNER, None, prefer if cause else "", tuple(avoid), cause, tried=tuple(failed)
        ),
        _nodes,
        _nodes,
        st.sampled_from(["", *NODES]),
        st.sampled_from(["", "m-1", "m-2", "m-3"]),
    ),
    max_size=3,
)


@given(_intents, st.dictionaries(st.sampled_from(["shop/m-1", "shop/m-2"]), st.integers(0, 3)))
def test_both_say_the_same(intents: list[Intent], used: dict[str, int]):
    book = IntentIndex(intents)
    pod = pod_of(name="web-1")
    made = patched(pod, answer_review(review_of(pod), book, used).body)
    affinity = made["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get(REQUIRED, {}).get("nodeSelectorTerms", [{}])
    excluded = {value for field in terms[0].get("matchFields", ()) for value in field["values"]}
    preferred = [term["preference"]["matchFields"][0]["values"][0] for term in affinity.get(PREFERRED, ())]
    # With one more that no intent avoids, so that there is always another place.
    asked = question(*NODES, "free", pod=pod)
    assert set(NODES) - set(filtered(asked, *intents).kept) == excluded
    assert list(prioritized(asked, *intents, used=used)) == preferred
    assert json.loads(made["metadata"].get("annotations", {}).get(AVOIDED_NODES_ANNOTATION, "[]")) == sorted(
        excluded
    )


# -- whatever comes in

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
ANY_BYTES = st.binary() | _json.map(lambda value: json.dumps(value).encode())


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in _places(each, (*path, key)))]


@st.composite
def changed_questions(draw: st.DrawFn) -> bytes:
    """A question of which one part is missing, or another."""
    asked = json.loads(question("a", "old", whole=draw(st.booleans())))
    *way, last = draw(st.sampled_from([place for place in _places(asked) if place]))
    holder = asked
    for key in way:
        holder = holder[key]
    by = draw(st.just(...) | _json)
    if by is ...:
        del holder[last]
    else:
        holder[last] = by
    return json.dumps(asked).encode()


@given(ANY_BYTES | changed_questions())
def test_whatever_is_asked_the_answer_is_one_that_a_scheduler_can_read(body: bytes):
    book = book_of("old", prefer="a")
    verdict = verdict_of(filter_nodes(body, book).body)
    assert set(scores_of(prioritize_nodes(body, book).body)) <= set(verdict.kept) | {"a"}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" * 100_000, id="nested without end"),
        pytest.param(b'{"Pod":{"metadata":{}},"Nodes":{"items":[{"metadata":{"x":"\xff"}}]}}', id="no text"),
        pytest.param(b'{"Pod":{"metadata":{}},"NodeNames":["\\ud800"]}', id="half a character"),
        pytest.param(b'{"Pod":{"metadata":{}}}', id="no nodes"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_what_can_t_be_read_is_said_so_that_the_scheduler_goes_on_without_us(body: bytes):
    assert "rescheduler can't decode the request" in verdict_of(filter_nodes(body, book_of("old")).body).error
    assert scores_of(prioritize_nodes(body, book_of("old", prefer="a")).body) == {}
