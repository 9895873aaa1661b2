"""Label selectors select the same objects as on the API server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubevalues import (
    EVERYTHING,
    NOTHING,
    Requirement,
    Selector,
    SelectorError,
    SelectorOperator,
    can_match,
    can_overlap,
    label_key_error,
    label_value_error,
    node_requirements_from_object,
    parse_selector,
    selector_from_labels,
    selector_from_object,
)

keys = st.sampled_from(["a", "b", "in", "notin", "example.com/app"])
values = st.sampled_from(["", "x", "y", "7", "07", "12", "in", "1_0"])
requirements = st.one_of(
    st.builds(
        Requirement.checked,
        keys,
        st.sampled_from([SelectorOperator.IN, SelectorOperator.NOT_IN]),
        st.lists(values, min_size=1, max_size=3),
    ),
    st.builds(
        Requirement.checked, keys, st.sampled_from([SelectorOperator.EXISTS, SelectorOperator.DOES_NOT_EXIST])
    ),
    st.builds(
        lambda key, operator, bound: Requirement.checked(key, operator, [bound]),
        keys,
        st.sampled_from([SelectorOperator.GREATER, SelectorOperator.LESS]),
        st.sampled_from(["0", "6", "7", "8", "11"]),
    ),
)
selectors = st.builds(Selector.of, st.lists(requirements, max_size=4))
labels = st.dictionaries(keys, values, max_size=5)


@pytest.mark.parametrize(
    ("text", "matching", "others"),
    [
        ("", [{}, {"a": "b"}], []),
        ("  \t\r\n", [{}], []),
        ("a=b", [{"a": "b"}, {"a": "b", "c": "d"}], [{}, {"a": "c"}, {"a": ""}]),
        ("a==b", [{"a": "b"}], [{"a": "c"}]),
        ("a=", [{"a": ""}], [{}, {"a": "b"}]),
        ("a!=b", [{}, {"a": "c"}], [{"a": "b"}]),
        ("a!=", [{}, {"a": "c"}], [{"a": ""}]),
        ("a", [{"a": ""}, {"a": "b"}], [{}]),
        ("!a", [{}, {"b": ""}], [{"a": ""}]),
        ("! a", [{}], [{"a": ""}]),
        ("a in (b,c)", [{"a": "b"}, {"a": "c"}], [{}, {"a": "d"}]),
        ("a in(b)", [{"a": "b"}], [{}]),
        ("a in (b,,c)", [{"a": ""}, {"a": "b"}], [{}]),
        ("a in (,)", [{"a": ""}], [{"a": "b"}]),
        ("a in ()", [{"a": ""}], [{}]),
        ("a notin (b,c)", [{}, {"a": "d"}], [{"a": "b"}]),
        ("a notin ()", [{}, {"a": "b"}], [{"a": ""}]),
        ("in in (in,notin)", [{"in": "notin"}], [{}]),
        ("notin", [{"notin": ""}], [{}]),
        ("a=in", [{"a": "in"}], [{"a": "x"}]),
        ("a>7", [{"a": "8"}, {"a": "0010"}], [{}, {"a": "7"}, {"a": "x"}, {"a": "1_0"}, {"a": "9" * 30}]),
        ("a < 7", [{"a": "6"}], [{}, {"a": "7"}, {"a": "six"}]),
        ("a=b,c!=d,!e", [{"a": "b"}], [{"a": "b", "c": "d"}, {"a": "b", "e": ""}]),
        ("example.com/a=b", [{"example.com/a": "b"}], [{"a": "b"}]),
    ],
)
def test_the_text_form_selects(text, matching, others):
    selector = parse_selector(text)
    assert [found for found in matching + others if selector.matches(found)] == matching


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        (",", 0, "a label key or '!'"),
        ("a,", 2, "found the end"),
        ("a,,b", 2, "found ','"),
        ("=b", 0, "found '='"),
        ("!=b", 0, "found '!='"),
        ("!", 1, "a label key"),
        ("!a=b", 2, "',' or the end"),
        ("a=b=c", 3, "',' or the end"),
        ("a=b c", 4, "',' or the end"),
        ("a=!b", 2, "',' or the end"),
        ("a ! b", 2, "one of = =="),
        ("a b", 2, "one of = =="),
        ("a in b", 5, "'('"),
        ("a in (b", 7, "',' or ')'"),
        ("a in (b c)", 8, "',' or ')'"),
        ("a in (b))", 8, "',' or the end"),
        ("a in (=)", 6, "',' or ')'"),
        ("a>x", 0, "an integer"),
        ("a>", 0, "an integer"),
        ("ok=1, a>=7", 6, "an integer"),
        ("-a=b", 0, "the label key '-a'"),
        ("x=y,a=-b", 4, "the label value '-b'"),
        ("a/b/c", 0, "label key"),
        ("/a", 0, "empty prefix"),
        ("Example.com/a", 0, "prefix"),
        ("a/", 0, "empty name"),
        ("a" * 64, 0, "at most 63"),
        ("a=" + "b" * 64, 0, "at most 63"),
        ("p" * 254 + "/a", 0, "at most 253"),
        ("ä=b", 0, "characters"),
    ],
)
def test_a_mistake_is_refused_with_its_position(text, position, problem):
    with pytest.raises(SelectorError, match=f"at character {position + 1}: ") as refused:
        parse_selector(text)
    assert refused.value.position == position
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("b=1,a=2", "a=2,b=1"),
        ("a==1, a = 1", "a=1"),
        ("a in (1)", "a=1"),
        ("a notin ( 2 , 1 )", "a notin (1,2)"),
        ("a notin (1)", "a!=1"),
        ("a in (,x)", "a in (,x)"),
        ("a > 1", "a>1"),
        (" ! a ", "!a"),
    ],
)
def test_the_canonical_text(text, canonical):
    assert str(parse_selector(text)) == canonical


@given(selectors)
def test_writing_and_reading_again_gives_an_equal_selector(selector):
    again = parse_selector(str(selector))
    assert again == selector
    assert hash(again) == hash(selector)


@given(selectors, labels)
def test_a_selector_matches_when_every_requirement_does(selector, found):
    assert selector.matches(found) is all(requirement.matches(found) for requirement in selector.requirements)


@given(selectors, selectors, labels)
def test_both_of_two_selectors(one, other, found):
    assert (one & other).matches(found) is (one.matches(found) and other.matches(found))


@given(st.text(alphabet="ab/-_. =!<>(),inot7", max_size=20))
def test_any_text_is_read_or_refused_and_nothing_else(text):
    try:
        selector = parse_selector(text)
    except SelectorError as error:
        assert error.position in range(len(text) + 1)  # noqa: PT017 - either outcome is right
    else:
        assert parse_selector(str(selector)) == selector


def test_missing_selects_nothing_and_empty_selects_everything():
    assert selector_from_object(None) == NOTHING
    assert not NOTHING.matches({})
    assert NOTHING.selects_nothing
    assert not NOTHING.selects_everything
    for empty in ({}, {"matchLabels": {}, "matchExpressions": []}, {"matchLabels": None}):
        assert selector_from_object(empty) == EVERYTHING
    assert EVERYTHING.selects_everything
    assert EVERYTHING != NOTHING
    assert (EVERYTHING & NOTHING) == NOTHING
    assert selector_from_labels(None) == EVERYTHING


def test_the_object_form_says_the_same_as_the_text_form():
    selector = selector_from_object(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["b", "a"]},
                {"key": "env", "operator": "NotIn", "values": ["test"]},
                {"key": "team", "operator": "Exists"},
                {"key": "old", "operator": "DoesNotExist", "values": []},
            ],
        }
    )
    assert selector == parse_selector("app=web,tier in (a,b),env!=test,team,!old")


def expression(**parts):
    return {"matchExpressions": [parts]}


@pytest.mark.parametrize(
    ("selector", "path", "problem"),
    [
        ([], "", "is not a map"),
        ({"matchLabel": {}}, "matchLabel", "unknown field"),
        ({"matchLabels": []}, "matchLabels", "not a map of labels"),
        ({"matchLabels": {"a": 1}}, "matchLabels[a]", "not a string"),
        ({"matchLabels": {"a b": "c"}}, "matchLabels[a b]", "label key"),
        ({"matchExpressions": {}}, "matchExpressions", "not a list"),
        ({"matchExpressions": ["a"]}, "matchExpressions[0]", "not a map"),
        (expression(key="a", operator="in"), "matchExpressions[0].operator", "In, NotIn"),
        (expression(key="a", operator="Gt", values=["1"]), "matchExpressions[0].operator", "In, NotIn"),
        (expression(key="a", operator="In"), "matchExpressions[0]", "at least one value"),
        (expression(key="a", operator="In", values="x"), "matchExpressions[0].values", "not a list"),
        (expression(operator="Exists"), "matchExpressions[0]", "not a string"),
        (expression(key="a", operator="Exists", values=["x"]), "matchExpressions[0]", "takes no values"),
    ],
)
def test_a_mistake_in_the_object_form_is_refused_with_its_path(selector, path, problem):
    with pytest.raises(SelectorError) as refused:
        selector_from_object(selector)
    assert refused.value.path == path
    assert problem in str(refused.value)


def test_terms_of_node_affinity_know_gt_and_lt_and_without_any_select_nothing():
    term = [
        {"key": "cores", "operator": "Gt", "values": ["4"]},
        {"key": "cores", "operator": "Lt", "values": ["9"]},
    ]
    assert node_requirements_from_object(term) == parse_selector("cores>4,cores<9")
    assert node_requirements_from_object([]) == NOTHING
    with pytest.raises(SelectorError, match="an integer"):
        node_requirements_from_object([{"key": "cores", "operator": "Gt", "values": ["4", "5"]}])


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ("", "", True),
        ("pool=a", "", True),
        ("pool=a", "pool=b", False),
        ("pool=a", "zone=b", True),
        ("pool in (a,b)", "pool in (b,c)", True),
        ("pool in (a,b)", "pool notin (a,b)", False),
        ("pool in (a,b)", "pool notin (a)", True),
        ("spot", "!spot", False),
        ("spot=true", "!spot", False),
        ("spot!=true", "!spot", True),
        ("cores>4", "cores<6", True),
        ("cores>4", "cores<5", False),
        ("cores>4", "!cores", False),
        ("cores in (2,4)", "cores>4", False),
        ("cores in (2,5)", "cores>4", True),
        ("cores>4", "cores<6,cores!=5", True),  # 05 is five as well
        ("cores<1", "cores!=0", True),
        ("cores<0", "", False),
        ("pool=a,spot", "pool=a,!spot", False),
    ],
)
def test_whether_two_selectors_can_select_the_same_object(one, other, overlap):
    assert can_overlap(parse_selector(one), parse_selector(other)) is overlap
    assert can_overlap(parse_selector(other), parse_selector(one)) is overlap


def test_nothing_overlaps_nothing():
    assert not can_overlap(NOTHING, EVERYTHING)


@given(selectors, labels)
def test_what_matches_something_can_match(selector, found):
    assert can_match(selector) or not selector.matches(found)


@given(selectors)
def test_what_can_match_has_an_example_among_the_values_that_matter(selector):
    # Every combination of one label's values; labels don't influence each other.
    for key in {requirement.key for requirement in selector.requirements}:
        on_key = Selector.of(r for r in selector.requirements if r.key == key)
        candidates = [
            {},
            *({key: value} for value in ["", "x", "y", "z", "in", "1_0", *map(str, range(14)), "07", "007"]),
        ]
        assert can_match(on_key) is any(on_key.matches(candidate) for candidate in candidates)


@pytest.mark.parametrize("key", ["a", "A.b_c-d", "example.com/a", "a" * 63, "1/1", "x.y/" + "z" * 63])
def test_good_keys(key):
    assert label_key_error(key) is None


@pytest.mark.parametrize("value", ["", "a", "A_b.c-9", "1" * 63])
def test_good_values(value):
    assert label_value_error(value) is None


@pytest.mark.parametrize("value", ["a\n", "a b", "-a", "a.", "ä", "a/b"])
def test_bad_values(value):
    assert label_value_error(value)
    assert label_key_error(f"x/{value}")
