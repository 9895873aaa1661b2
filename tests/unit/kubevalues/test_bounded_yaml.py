"""YAML from untrusted sources is read, and refused if it would expand without limit."""

import pytest
import yaml

from kubevalues.bounded_yaml import load_yaml


def multiplied(levels: int) -> str:
    first = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    return first + "".join(
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, levels)
    )


def test_aliases_and_merge_keys_of_usual_size_are_read():
    assert load_yaml("a: &a {b: 1}\nc: *a\nd: {<<: *a, e: 2}") == {
        "a": {"b": 1},
        "c": {"b": 1},
        "d": {"b": 1, "e": 2},
    }


def test_aliases_that_multiply_are_refused():
    with pytest.raises(yaml.YAMLError, match="more than 100000 values"):
        load_yaml(multiplied(8))


def test_an_alias_that_contains_itself_is_refused():
    with pytest.raises(yaml.YAMLError, match="contains itself"):
        load_yaml("&a [*a]")


def test_a_date_that_does_not_exist_is_a_fault_of_the_file():
    with pytest.raises(yaml.YAMLError, match="month must be in"):
        load_yaml("a: 2001-99-99")
