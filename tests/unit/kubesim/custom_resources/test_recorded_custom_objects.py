"""Custom objects are completed and refused as on the real API server; `seen/` holds its answers."""

import copy
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from kubesim.admission import object_defaults
from kubesim.admission.admission_chain import warn_or_refuse
from kubesim.admission.validation import object_validation
from kubesim.apiserver.status_errors import StatusError, invalid
from kubesim.custom_resources.served_definitions import kinds_of

SEEN = Path(__file__).parent / "seen"
WIDGET = yaml.safe_load((SEEN / "widget.yaml").read_text("utf-8"))
(KIND,) = kinds_of(WIDGET)


def lookup(api_version, kind, namespace, name):
    return WIDGET if (kind, name) == ("CustomResourceDefinition", "widgets.adm.example.com") else None


def admit(obj, old=None):
    operation = "UPDATE" if old else "CREATE"
    new = object_defaults.apply_defaults(
        KIND, copy.deepcopy(obj), operation, now=datetime.now(UTC), lookup=lookup
    )
    if faults := object_validation.validate_object(KIND, new, old, lookup=lookup):
        raise invalid(KIND, new["metadata"]["name"], faults)
    return new


def widget(**spec):
    return {
        "apiVersion": KIND.api_version,
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"name": "ab", **spec},
    }


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=c["says"]) for c in yaml.safe_load((SEEN / "widgets.yaml").read_text("utf-8"))],
)
def test_the_same_answer_as_from_the_real_server(case):
    if case["code"] == 201:
        assert admit(case["given"])["spec"] == case["spec"]
        return
    with pytest.raises(StatusError) as refused:
        admit(case["given"])
    assert refused.value.code == case["code"]
    if "causes" in case:
        causes = refused.value.details["causes"]
        assert [[c["field"], c["reason"], c["message"]] for c in causes] == case["causes"]
    else:
        assert refused.value.message == case["message"]


def test_a_rule_about_the_past_is_asked_when_there_was_one():
    old = admit(widget())
    with pytest.raises(StatusError) as refused:
        admit(widget(name="cd"), old)
    assert (
        refused.value.message
        == 'Widget.adm.example.com "w" is invalid: spec: Invalid value: name is immutable'
    )
    assert admit(widget(replicas=2), old)


def test_defaults_are_filled_in_inside_lists():
    assert admit(widget(items=[{"key": "a"}]))["spec"]["items"] == [{"key": "a", "n": 7}]


def test_completing_twice_changes_nothing():
    once = admit(widget(items=[{"key": "a"}], free={"x": {"y": [1]}}, maybe=None))
    assert admit(once) == once


def test_unknown_fields_are_reported_and_refused_like_those_of_built_in_kinds():
    sent = widget(unknown=1, items=[{"key": "a", "z": 1}])
    sent["metadata"]["foo"] = 3
    assert len(warn_or_refuse(KIND, sent, "Warn", lookup=lookup)) == 3
    with pytest.raises(StatusError) as refused:
        warn_or_refuse(KIND, sent, "Strict", lookup=lookup)
    assert refused.value.message == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field '
        '"metadata.foo", unknown field "spec.items[0].z", unknown field "spec.unknown"'
    )


def test_what_was_sent_is_not_changed():
    sent = widget(unknown=1)
    before = copy.deepcopy(sent)
    admit(sent)
    assert sent == before
