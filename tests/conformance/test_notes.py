"""Notes of two servers can only be equal if what can't be equal is replaced by its name."""

import pytest

from tests.conformance.notes import at, normalised, without_made_names


@pytest.mark.parametrize(
    ("reported", "noted"),
    [
        pytest.param("scenario-7-1-worker", "NAMESPACE-worker", id="names of the scenario's own"),
        pytest.param("9f0c2a52-5b0e-4c57-93f2-0d4f0d2f6a11 is gone", "UID is gone", id="uids"),
        pytest.param("at 2026-01-02T03:04:05.678Z", "at TIME", id="times"),
        pytest.param('Post "https://127.0.0.1:4711/x"', 'Post "https://127.0.0.1:PORT/x"', id="ports"),
        pytest.param(
            'spec: Invalid value: {"a":{"b":[1]}}: is bad, x: Unsupported value: "y": no',
            'spec: Invalid value: OBJECT: is bad, x: Unsupported value: "y": no',
            id="objects quoted in a refusal",
        ),
        pytest.param(
            'patch: Invalid value: "{\\"kind\\":\\"Pod\\"}": json: no',
            "patch: Invalid value: OBJECT: json: no",
            id="objects quoted as text",
        ),
        pytest.param('Invalid value: {"unfinished', 'Invalid value: {"unfinished', id="no object after all"),
        pytest.param(
            {"metadata": {"resourceVersion": "7", "name": "a", "creationTimestamp": None}},
            {"metadata": {"name": "a"}},
            id="fields that are never equal",
        ),
        pytest.param(("a", 1, None), ["a", 1, None], id="all else stays"),
    ],
)
def test_notes_name_what_differs_anyway(reported: object, noted: object) -> None:
    assert normalised(reported, "scenario-7-1") == noted


@pytest.mark.parametrize(
    ("path", "found"),
    [
        pytest.param("a.b", 1, id="a field of a field"),
        pytest.param("list.1.x", 3, id="by position"),
        pytest.param("list.*.x", [2, 3], id="of every item"),
        pytest.param("list.7", None, id="beyond the end"),
        pytest.param("a.b.c", None, id="below a number"),
        pytest.param("", {"a": {"b": 1}, "list": [{"x": 2}, {"x": 3}]}, id="the whole"),
    ],
)
def test_a_path_leads_to_a_value_or_to_nothing(path: str, found: object) -> None:
    assert at({"a": {"b": 1}, "list": [{"x": 2}, {"x": 3}]}, path) == found


@pytest.mark.parametrize(
    ("name", "noted"),
    [
        pytest.param("web-7b5c9cb57f-bhprj", "web-MADE", id="a Deployment's pod"),
        pytest.param("web-bhprj", "web-MADE", id="a ReplicaSet's pod"),
        pytest.param(
            'ReplicaSet "web-8cf7799b4" is', 'ReplicaSet "web-MADE" is', id="a ReplicaSet in a message"
        ),
        pytest.param("data-db-0", "data-db-0", id="not a StatefulSet's claim"),
        pytest.param("NAMESPACE-0001", "NAMESPACE-0001", id="not a node"),
        pytest.param("pod-template-hash", "pod-template-hash", id="not a word"),
    ],
)
def test_names_that_controllers_make_up_are_as_good_as_any(name: str, noted: str) -> None:
    assert without_made_names({name: [name]}) == {noted: [noted]}
