"""Which definitions are refused and why, with the messages of a real API server."""

import copy
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from kubesim.admission import object_defaults
from kubesim.admission.validation import object_validation
from kubesim.apiserver.kind_registry import KindRegistry
from tests.objects import empty_lookup

WIDGET = yaml.safe_load((Path(__file__).parent / "seen" / "widget.yaml").read_text("utf-8"))
KIND = KindRegistry().named("apiextensions.k8s.io/v1", "CustomResourceDefinition")
SCHEMA = "spec.validation.openAPIV3Schema"
FIELD = f"{SCHEMA}.properties[spec].properties[x]"


def faults(definition, old=None):
    completed = object_defaults.apply_defaults(
        KIND, definition, "CREATE", now=datetime.now(UTC), lookup=empty_lookup
    )
    return [
        (f.field, f.message)
        for f in object_validation.validate_object(KIND, completed, old, lookup=empty_lookup)
    ]


@pytest.fixture
def definition():
    return copy.deepcopy(WIDGET)


def with_field(definition, schema):
    root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    root["properties"]["spec"]["properties"]["x"] = schema
    return definition


def test_a_good_one_is_accepted(definition):
    assert faults(definition) == []


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        pytest.param(
            "metadata.name",
            "x",
            ("metadata.name", 'Invalid value: "x": must be spec.names.plural+"."+spec.group'),
            id="a name that is not its plural and its group",
        ),
        pytest.param(
            "spec.scope",
            "Global",
            ("spec.scope", 'Unsupported value: "Global": supported values: "Cluster", "Namespaced"'),
            id="an unknown scope",
        ),
        pytest.param("spec.scope", "", ("spec.scope", "Required value"), id="no scope"),
        pytest.param(
            "spec.preserveUnknownFields",
            True,
            (
                "spec.preserveUnknownFields",
                (
                    "Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to "
                    "true in spec.versions[*].schema instead"
                ),
            ),
            id="unknown fields kept everywhere",
        ),
        pytest.param(
            "spec.conversion",
            {"strategy": "Webhook"},
            (
                "spec.conversion.strategy",
                (
                    'Invalid value: "Webhook": this server converts between versions only by changing the '
                    "apiVersion (strategy None)"
                ),
            ),
            id="conversion by a webhook, which is not simulated",
        ),
        pytest.param(
            "spec.versions.0.storage",
            False,
            ("status.storedVersions", "Invalid value: null: must have at least one stored version"),
            id="no version to store",
        ),
        pytest.param(
            "spec.versions.0.schema",
            {},
            ("spec.versions[0].schema.openAPIV3Schema", "Required value"),
            id="no schema",
        ),
        pytest.param(
            "spec.versions.0.schema.openAPIV3Schema.type",
            "string",
            (f"{SCHEMA}.type", 'Invalid value: "string": must be object at the root'),
            id="a root that is no object",
        ),
        pytest.param(
            "spec.versions.0.subresources",
            {"scale": {"specReplicasPath": "spec.n", "statusReplicasPath": ".status.n"}},
            (
                "spec.subresources.scale.specReplicasPath",
                'Invalid value: "spec.n": must be a simple json path starting with .',
            ),
            id="a scale path without its dot",
        ),
        pytest.param(
            "spec.versions.0.subresources",
            {"scale": {}},
            ("spec.subresources.scale.statusReplicasPath", "Required value"),
            id="a scale without paths",
        ),
        pytest.param(
            "spec.versions.0.additionalPrinterColumns",
            [{"name": "a", "type": "foo", "jsonPath": ".spec"}],
            (
                "spec.additionalPrinterColumns[0].type",
                'Invalid value: "foo": must be one of boolean,date,integer,number,string',
            ),
            id="a column of an unknown type",
        ),
    ],
)
def test_is_refused_for(path, value, fault, definition):
    *steps, last = path.split(".")
    at = definition
    for step in steps:
        at = at[int(step)] if isinstance(at, list) else at[step]
    at[last] = value
    assert fault in faults(definition)


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        pytest.param(
            {},
            (f"{FIELD}.type", "Required value: must not be empty for specified object fields"),
            id="no type",
        ),
        pytest.param(
            {"type": "int"},
            (
                f"{FIELD}.type",
                (
                    'Unsupported value: "int": supported values: "array", "boolean", "integer", "number", '
                    '"object", "string"'
                ),
            ),
            id="an unknown type",
        ),
        pytest.param(
            {"type": "array"}, (f"{FIELD}.items", "Required value: must be specified"), id="a list of nothing"
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "additionalProperties": {"type": "string"},
            },
            (
                f"{FIELD}.additionalProperties",
                "Forbidden: additionalProperties and properties are mutual exclusive",
            ),
            id="named and unnamed fields",
        ),
        pytest.param(
            {"type": "integer", "default": "a"},
            (f"{FIELD}.default", 'Invalid value: "string":  in body must be of type integer: "string"'),
            id="a default of another type",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"},
            (
                f"{FIELD}.x-kubernetes-list-map-keys",
                "Required value: must not be empty if x-kubernetes-list-type is map",
            ),
            id="a map-like list without keys",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "foo"},
            (
                f"{FIELD}.x-kubernetes-list-type",
                'Unsupported value: "foo": supported values: "atomic", "set", "map"',
            ),
            id="an unknown kind of list",
        ),
        pytest.param(
            {"type": "integer", "x-kubernetes-validations": [{"rule": ""}]},
            (f"{FIELD}.x-kubernetes-validations[0].rule", "Required value: rule is not specified"),
            id="an empty rule",
        ),
        pytest.param(
            {"type": "object", "anyOf": [{"type": "object"}]},
            (f"{FIELD}.anyOf[0].type", "Forbidden: must be empty to be structural"),
            id="a type in an alternative",
        ),
    ],
)
def test_a_schema_is_refused_for(schema, fault, definition):
    assert faults(with_field(definition, schema)) == [fault]


@pytest.mark.parametrize(
    ("rule", "reported"),
    [
        pytest.param(
            "self.foo == 1", "type 'int' does not support field selection", id="a field of a number"
        ),
        pytest.param("self ==", "unexpected 'end'", id="half a rule"),
        pytest.param(
            "quantity(self) == 1",
            "this server has no function quantity() with 1 argument(s)",
            id="a rule that could not be evaluated here",
        ),
    ],
)
def test_a_rule_is_refused_for(rule, reported, definition):
    ((field, message),) = faults(
        with_field(definition, {"type": "integer", "x-kubernetes-validations": [{"rule": rule}]})
    )
    assert field == f"{FIELD}.x-kubernetes-validations[0].rule"
    assert reported in message


def test_a_rule_about_a_field_that_is_not_in_the_schema_is_refused(definition):
    schema = {
        "type": "object",
        "properties": {"phase": {"type": "string"}},
        "x-kubernetes-validations": [{"rule": "self.phase == 'a' || self.fase == 'b'"}],
    }
    ((_, message),) = faults(with_field(definition, schema))
    assert message.endswith("compilation failed: undefined field 'fase'")


def test_a_number_or_a_text_may_be_said_in_two_ways_at_once(definition):
    alternatives = [{"type": "integer"}, {"type": "string"}]
    schema = {"x-kubernetes-int-or-string": True, "anyOf": alternatives, "pattern": "^.*$"}
    assert faults(with_field(definition, schema)) == []


def test_group_scope_and_names_stay(definition):
    old = copy.deepcopy(definition)
    definition["spec"]["scope"] = "Cluster"
    definition["spec"]["names"]["kind"] = "Gadget"
    assert {field for field, _ in faults(definition, old)} == {"spec.scope", "spec.names.kind"}
