"""Requests are read as objects of their kind: known fields only, each of its type."""

import pytest

from kubesim.admission import object_decoding
from kubesim.admission.admission_chain import warn_or_refuse
from kubesim.admission.object_decoding import type_of
from kubesim.apiserver.status_errors import StatusError
from tests.objects import empty_lookup


@pytest.fixture
def pods(kinds):
    return kinds.named("v1", "Pod")


def test_the_fields_of_every_kind_that_can_be_written_are_known(kinds):
    unknown = [kind.resource for kind in kinds if "create" in kind.verbs and type_of(kind) is None]
    assert unknown == []


def test_unknown_fields_and_nulls_are_dropped(pods):
    read = object_decoding.decode_object(
        pods, {"spec": {"containers": [{"name": "c", "color": "red"}], "nodeName": None}}
    )
    assert read == {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {},
        "spec": {"containers": [{"name": "c"}]},
    }


@pytest.mark.parametrize(
    ("written", "stored"),
    [("0.5", "500m"), (2, "2"), ("1024Mi", "1Gi"), ("1000m", "1"), (0.1, "100m"), ("1500M", "1500M")],
)
def test_quantities_are_stored_in_one_form(written, stored, pods):
    pod = {"spec": {"containers": [{"resources": {"limits": {"cpu": written}}}]}}
    assert object_decoding.decode_object(pods, pod)["spec"]["containers"][0]["resources"]["limits"] == {
        "cpu": stored
    }


UNKNOWN = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "label": {}},
    "spec": {"containers": [{"name": "c", "color": "red"}], "replica": 1},
}


def test_strict_requests_are_refused_for_every_unknown_field(pods):
    with pytest.raises(StatusError) as refused:
        warn_or_refuse(pods, UNKNOWN, "Strict", lookup=empty_lookup)
    assert refused.value.code == 400
    assert refused.value.message == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
        'unknown field "metadata.label", unknown field "spec.containers[0].color", '
        'unknown field "spec.replica"'
    )


@pytest.mark.parametrize("field_validation", ["Warn", ""])
def test_other_requests_are_warned(field_validation, pods):
    warnings = warn_or_refuse(pods, UNKNOWN, field_validation, lookup=empty_lookup)
    assert warnings[0] == 'unknown field "metadata.label"'
    assert len(warnings) == 3


def test_those_who_ignore_unknown_fields_get_nothing(pods):
    assert warn_or_refuse(pods, UNKNOWN, "Ignore", lookup=empty_lookup) == []


def test_known_fields_are_never_called_unknown(kinds, base, admit):
    """Not even those that defaults add."""
    for kind in ("Pod", "Deployment", "Job", "CronJob", "StatefulSet", "Service", "Node"):
        stored = admit(base(kind))
        found = kinds.named(stored["apiVersion"], kind)
        assert warn_or_refuse(found, stored, "Strict", lookup=empty_lookup) == []


def test_a_null_in_a_list_stands_for_an_empty_item(pods):
    assert object_decoding.decode_object(pods, {"spec": {"containers": [None]}})["spec"] == {
        "containers": [{}]
    }
