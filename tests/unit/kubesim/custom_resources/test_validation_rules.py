"""Rules in a schema (`x-kubernetes-validations`), at any depth."""

from kubesim.custom_resources.custom_schema import CustomSchema

IMMUTABLE = [{"rule": "self == oldSelf", "message": "may not change"}]


def faults(schema, new, old=None):
    root = {"type": "object", "properties": {"spec": schema}}
    before = None if old is None else {"spec": old}
    return [(f.field, f.reason, f.message) for f in CustomSchema(root).faults({"spec": new}, before)]


def test_a_whole_object_may_be_fixed():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "x-kubernetes-validations": IMMUTABLE,
    }
    assert faults(schema, {"a": 1}) == []
    assert faults(schema, {"a": 1}, {"a": 1}) == []
    assert faults(schema, {"a": 2}, {"a": 1}) == [
        ("spec", "FieldValueInvalid", "Invalid value: may not change")
    ]


def test_a_field_that_was_not_there_before_has_no_past():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer", "x-kubernetes-validations": IMMUTABLE}},
    }
    assert faults(schema, {"a": 2}, {}) == []
    assert faults(schema, {"a": 2}, {"a": 1})[0][0] == "spec.a"


def test_items_of_a_map_like_list_are_compared_by_key():
    item = {
        "type": "object",
        "properties": {
            "key": {"type": "string"},
            "n": {"type": "integer", "x-kubernetes-validations": IMMUTABLE},
        },
    }
    schema = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["key"],
    }
    old = [{"key": "a", "n": 1}, {"key": "b", "n": 2}]
    assert faults(schema, old[::-1], old) == []
    assert [f[0] for f in faults(schema, [{"key": "b", "n": 3}], old)] == ["spec[0].n"]


def test_items_of_other_lists_have_no_past():
    schema = {"type": "array", "items": {"type": "integer", "x-kubernetes-validations": IMMUTABLE}}
    assert faults(schema, [2], [1]) == []


def test_a_rule_may_have_a_reason_and_point_at_a_field():
    rule = {"rule": "self.a < 3", "message": "too much", "reason": "FieldValueForbidden", "fieldPath": ".a"}
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "x-kubernetes-validations": [rule]}
    assert faults(schema, {"a": 3}) == [("spec.a", "FieldValueForbidden", "Forbidden: too much")]


def test_a_rule_without_a_value_is_a_fault():
    rule = {"rule": "self.a == 1"}
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "x-kubernetes-validations": [rule]}
    ((field, _, message),) = faults(schema, {})
    assert (field, message) == ("spec", "Invalid value: no such key: a evaluating rule: self.a == 1")


def test_an_object_with_broken_types_is_not_asked():
    rule = {"rule": "self.a < 3"}
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "x-kubernetes-validations": [rule]}
    assert [f[0] for f in faults(schema, {"a": "x"})] == ["spec.a", "<nil>"]
