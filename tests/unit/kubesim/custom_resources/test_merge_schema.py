"""Server-side apply of custom objects follows the list types of their schema."""

from kubesim.patches.merge_schema import custom_merge_schema

LIST = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["port", "protocol"],
    "items": {
        "type": "object",
        "properties": {
            "port": {"type": "integer"},
            "protocol": {"type": "string", "default": "TCP"},
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        },
    },
}
ROOT = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "ports": LIST,
                "plain": {"type": "array", "items": {"type": "string"}},
                "whole": {"type": "object", "x-kubernetes-map-type": "atomic"},
                "by": {"type": "object", "additionalProperties": LIST},
            },
        }
    },
}


def test_a_map_like_list_is_merged_by_its_keys():
    ports = custom_merge_schema(ROOT).at("spec").at("ports")
    assert ports.keys == ("port", "protocol")
    assert ports.key_defaults == {"protocol": "TCP"}
    assert ports.at("tags").is_set


def test_other_lists_are_replaced_as_a_whole():
    plain = custom_merge_schema(ROOT).at("spec").at("plain")
    assert (plain.keys, plain.is_set) == ((), False)


def test_an_atomic_object_is_replaced_as_a_whole():
    assert custom_merge_schema(ROOT).at("spec").at("whole").atomic


def test_values_of_a_map_are_merged_by_their_schema():
    assert custom_merge_schema(ROOT).at("spec").at("by").at("any name").keys == ("port", "protocol")


def test_owners_and_finalizers_are_merged_as_in_every_object():
    metadata = custom_merge_schema(ROOT).at("metadata")
    assert metadata.at("ownerReferences").keys == ("uid",)
    assert metadata.at("finalizers").is_set
