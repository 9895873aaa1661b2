"""Errors in objects are reported with the object's name, never as a traceback."""

from typing import Any

import pytest

from rescheduler.cluster.object_meta import PartialObject, UnreadableObject, decode_object, normalized


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(depth):
        found = {"x": found}
    return found


@pytest.mark.parametrize(
    ("item", "message"),
    [
        pytest.param({}, "Thing without a name: metadata.name is missing", id="nothing in it"),
        pytest.param([], "Thing without a name: expected an object, got a list", id="no object at all"),
        pytest.param({"metadata": 5}, "Thing without a name: metadata: expected an object", id="no metadata"),
        pytest.param(
            {"metadata": {"name": "n", "namespace": "x", "labels": {"a": 1}}},
            "Thing x/n: metadata.labels[...]: expected a string, got an integer",
            id="a label that is no text",
        ),
        pytest.param(
            {"metadata": {"name": "n", "deletionTimestamp": "yesterday"}},
            "Thing n: metadata.deletionTimestamp: ",
            id="a time that is none",
        ),
        pytest.param(
            {"metadata": {"name": "n"}, "x": nested(5_000)}, "Thing n: nested too deeply", id="too deep"
        ),
    ],
)
def test_an_object_that_is_invalid(item: Any, message: str):
    with pytest.raises(UnreadableObject) as refused:
        decode_object("Thing", item, PartialObject)
    assert message in str(refused.value)


def test_nulls_and_unknown_fields_are_skipped():
    item = {"metadata": {"name": "n", "labels": None, "novelty": [1]}, "spec": {"anything": None}}
    meta = decode_object("Thing", item, PartialObject).metadata
    assert (meta.key, meta.labels, meta.deleted_s) == ("n", {}, None)


def test_a_label_with_the_name_of_the_managed_fields_is_kept() -> None:
    metadata = {"labels": {"managedFields": "mine"}, "managedFields": [{"manager": "kubectl"}]}
    assert normalized({"metadata": metadata}) == {"metadata": {"labels": {"managedFields": "mine"}}}
