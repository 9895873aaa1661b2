"""Printer columns find their values by JSONPath."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.printers.custom_columns import JsonPath, PathError

OBJECT = {
    "metadata": {"labels": {"app": "web", "example.com/note": "hi"}},
    "spec": {"items": [{"name": "a", "size": 1}, {"name": "b", "size": 5, "on": True}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Idle", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        pytest.param(".metadata.labels.app", ["web"], id="fields by name"),
        pytest.param("{.metadata.labels.app}", ["web"], id="in braces, as on the command line"),
        pytest.param("$.metadata.labels.app", ["web"], id="from the root"),
        pytest.param(r".metadata.labels.example\.com/note", ["hi"], id="a name with a dot in it"),
        pytest.param(".metadata.labels['example.com/note']", ["hi"], id="a name in quotes"),
        pytest.param('.metadata["labels"]["app"]', ["web"], id="a name in double quotes"),
        pytest.param(".spec.items[0].name", ["a"], id="an item by number"),
        pytest.param(".spec.items[-1].name", ["b"], id="an item from the end"),
        pytest.param(".spec.items[*].name", ["a", "b"], id="all items"),
        pytest.param(".spec.items[7].name", [], id="an item that is missing"),
        pytest.param(".spec.nothing.at.all", [], id="a field that is missing"),
        pytest.param(".spec.items.name", [], id="a field of a list"),
        pytest.param('.status.conditions[?(@.type=="Ready")].status', ["True"], id="items that equal a text"),
        pytest.param(".status.conditions[?(@.type=='Idle')].status", ["False"], id="a text in single quotes"),
        pytest.param('.status.conditions[?(@.type != "Idle")].type', ["Ready"], id="items that differ"),
        pytest.param(".spec.items[?(@.size>2)].name", ["b"], id="items above a number"),
        pytest.param(".spec.items[?(@.size<=1)].name", ["a"], id="items up to a number"),
        pytest.param(".spec.items[?(@.on)].name", ["b"], id="items that have a field"),
        pytest.param(".spec.items[?(@.on==true)].name", ["b"], id="items where something is true"),
        pytest.param('.spec.items[?(@.size=="1")].name', [], id="a number is no text"),
        pytest.param(".spec.items[?(@.name>2)].name", [], id="and can't be compared with one"),
    ],
)
def test_a_path_finds(path, found):
    assert list(JsonPath.parse(path).find(OBJECT)) == found


@pytest.mark.parametrize("path", ["..name", ".spec[", ".a[?(@.b==c)]", "spec", ".a[1:2]"])
def test_what_is_not_understood_is_refused_and_named(path):
    with pytest.raises(PathError, match="can't"):
        JsonPath.parse(path)


keys = st.text(st.characters(codec="ascii", exclude_characters="'\"\\"), min_size=1)


@given(st.lists(keys, min_size=1, max_size=5), st.integers())
def test_a_value_is_found_under_any_quoted_names(names, value):
    nested = value
    for name in reversed(names):
        nested = {name: nested}

    path = JsonPath.parse("".join(f"['{name}']" for name in names))

    assert list(path.find(nested)) == [value]
