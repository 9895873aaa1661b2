"""Field selectors select the same objects as on the API server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubevalues import FieldSelector, FieldTerm, SelectorError, parse_field_selector

terms = st.builds(
    FieldTerm,
    st.sampled_from(["metadata.name", "status.phase", "spec.nodeName"]),
    st.booleans(),
    st.text(alphabet="ab,=\\! é\n", max_size=6),
)


@pytest.mark.parametrize(
    ("text", "matching", "others"),
    [
        ("", [{}, {"metadata.name": "a"}], []),
        (",,", [{}], []),
        ("=,!=", [{}, {"a": "b"}], []),
        ("metadata.name=a", [{"metadata.name": "a"}], [{}, {"metadata.name": "b"}]),
        ("metadata.name==a", [{"metadata.name": "a"}], [{}]),
        ("spec.nodeName=", [{}, {"spec.nodeName": ""}], [{"spec.nodeName": "n"}]),
        ("spec.nodeName!=", [{"spec.nodeName": "n"}], [{}]),
        ("status.phase!=Running", [{}, {"status.phase": "Failed"}], [{"status.phase": "Running"}]),
        (
            "metadata.name=a,status.phase!=Running",
            [{"metadata.name": "a"}],
            [{}, {"metadata.name": "a", "status.phase": "Running"}],
        ),
        (r"x=a\,b\=c\\", [{"x": "a,b=c\\"}], [{"x": "a"}]),
    ],
)
def test_a_field_selector_selects(text, matching, others):
    selector = parse_field_selector(text)
    assert [found for found in matching + others if selector.matches(found)] == matching


@pytest.mark.parametrize(
    ("text", "position"),
    [("metadata.name", 0), ("a=b,c", 4), ("a=b=c", 3), (r"a=\b", 2), ("a=b\\", 3), (r"a=b,c=\x", 6)],
)
def test_a_mistake_is_refused_with_its_position(text, position):
    with pytest.raises(SelectorError) as refused:
        parse_field_selector(text)
    assert refused.value.position == position


def test_an_index_can_ask_for_the_one_value_that_is_required():
    selector = parse_field_selector("spec.nodeName=n1,status.phase!=Failed")
    assert selector.required("spec.nodeName") == "n1"
    assert selector.required("status.phase") is None
    assert selector.required("metadata.name") is None


@given(st.lists(terms, max_size=4))
def test_writing_and_reading_again_gives_an_equal_selector(found):
    selector = FieldSelector(tuple(sorted(set(found))))
    assert parse_field_selector(str(selector)) == selector


@given(st.text(alphabet="ab,=!\\", max_size=12))
def test_any_text_is_read_or_refused_and_nothing_else(text):
    try:
        selector = parse_field_selector(text)
    except SelectorError as error:
        assert error.position in range(len(text) + 1)  # noqa: PT017 - either outcome is right
    else:
        assert parse_field_selector(str(selector)) == selector
