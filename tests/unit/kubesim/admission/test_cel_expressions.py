"""The subset of CEL that validation rules and match conditions use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.admission.cel_evaluation import UndefinedValue, UnsupportedExpression, compile_expression

SELF = {
    "name": "web",
    "count": 3,
    "ratio": 0.5,
    "on": True,
    "tags": ["a", "b"],
    "owners": [{"kind": "ReplicaSet", "controller": True}, {"kind": "Note"}],
    "labels": {"app": "x"},
}


@pytest.mark.parametrize(
    "expression",
    [
        "self.count == 3 && self.name == 'web'",
        'self.count != 4 || self.name == "db"',
        "self.count > 2 && self.count >= 3 && self.count < 4 && self.count <= 3",
        "!(self.count == 4)",
        "has(self.name) && !has(self.missing)",
        "size(self.tags) == 2 && self.tags.size() == 2 && size(self.name) == 3",
        "'a' in self.tags && 'app' in self.labels && !('z' in self.tags)",
        "self.count in [1, 2, 3]",
        "self.labels == {'app': 'x'}",
        "self.labels['app'] == 'x' && self.tags[1] == 'b'",
        "self.owners.exists(o, o.kind == 'ReplicaSet' && o.controller)",
        "self.owners.all(o, has(o.kind))",
        "self.owners.exists_one(o, o.kind == 'Note')",
        "self.tags.filter(t, t != 'a') == ['b']",
        "self.tags.map(t, t + '!') == ['a!', 'b!']",
        "self.name.startsWith('w') && self.name.endsWith('b') && self.name.contains('e')",
        "self.name.matches('^[a-z]+$')",
        "self.count + 1 * 2 == 5 && (self.count + 1) * 2 == 8",
        "self.count - 1 - 1 == 1 && 7 / 2 == 3 && 7 % 2 == 1 && -self.count == -3",
        "self.on ? self.count == 3 : false",
        "self.count > 0.5 && self.ratio < 1",
        "int('3') == self.count && string(self.count) == '3'",
        "true != false && null == null",
        "self.labels.__app__ == 'x' && has(self.labels.__app__)",
        "self.missing == 1 || self.on // one side that decides is enough",
        "!(self.missing == 1 && !self.on)",
    ],
)
def test_holds(expression):
    assert compile_expression(expression).holds({"self": SELF}) is True


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("self.missing == 1", id="a field that is missing"),
        pytest.param("self.name > 3", id="a comparison of a text with a number"),
        pytest.param("self.tags[7] == 'a'", id="an index beyond the end"),
        pytest.param("self.name", id="a value that is neither true nor false"),
        pytest.param("self.count / 0 == 1", id="a division by zero"),
        pytest.param("other == 1", id="an undefined name"),
        pytest.param("self.count.exists(x, x)", id="elements of a number"),
        pytest.param("self.count && true", id="a number in place of a truth"),
    ],
)
def test_has_no_value(expression):
    with pytest.raises(UndefinedValue):
        compile_expression(expression).holds({"self": SELF})


@pytest.mark.parametrize(
    ("expression", "reported"),
    [
        pytest.param(
            "quantity(self.cpu).isGreaterThan(self.x)", "no function quantity", id="an unknown function"
        ),
        pytest.param("self.name.lowerAscii() == 'a'", "no function lowerAscii", id="an unknown method"),
        pytest.param("size(self.a, self.b) == 1", "no function size", id="a wrong number of arguments"),
        pytest.param("self ==", "unexpected", id="half a comparison"),
        pytest.param("(self", "expected", id="a bracket that stays open"),
        pytest.param("self $ 1", "unexpected '\\$'", id="a sign that means nothing"),
        pytest.param("self.tags.all(t)", "takes the name of an element", id="a macro without a condition"),
        pytest.param("has(self)", "has\\(\\) takes a field", id="has of no field"),
        pytest.param("!" * 500 + "true", "levels", id="more levels than anyone can read"),
        pytest.param("(" * 500 + "true" + ")" * 500, "nested", id="more brackets than anyone can read"),
    ],
)
def test_is_refused_when_it_is_given(expression, reported):
    with pytest.raises(UnsupportedExpression, match=reported):
        compile_expression(expression)


def test_shows_whether_it_speaks_of_what_was():
    assert compile_expression("self.a == oldSelf.a").mentions("oldSelf")
    assert not compile_expression("self.oldSelf == 'oldSelf'").mentions("oldSelf")


@given(st.text(alphabet="self.a[]()!&|=<>'\"1 ,:?{}+-xin", max_size=30))
def test_any_text_is_an_expression_or_is_refused(text):
    try:
        expression = compile_expression(text)
    except UnsupportedExpression:
        return
    try:
        expression.holds({"self": SELF})
    except UndefinedValue:
        return
