"""Files are parsed as the tools of Kubernetes parse them, but nothing is dropped silently."""

import math

import pytest

from rescheduler.config.config_document import MAX_CONFIG_BYTES, UnreadableConfig, read_document


def read(text):
    return read_document(text.encode()).data


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# only a comment", None),
        ("---\n...\n", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("off", False),
        ("5", 5),
        ("-5", -5),
        ("0", 0),
        ("5.5", 5.5),
        ("5.", 5.0),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("-.inf", -math.inf),
        ('"5"', "5"),
        ("'true'", "true"),
        ("!!str 5", "5"),
        ("!!int 5", 5),
        ("22:00", "22:00"),
        ("2024-01-01", "2024-01-01"),
        ("010", "010"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("=", "="),
        ("[1, [2], {a: b}]", [1, [2], {"a": "b"}]),
        ("1: a\ntrue: b", {"1": "a", "true": "b"}),
        ('{\n\t"a": 1,\t"b": "x\\ty"\n}', {"a": 1, "b": "x\ty"}),
        ('{"a":1,"b":[true,null]}', {"a": 1, "b": [True, None]}),
        ("\ufeffa: 1", {"a": 1}),
        ('{"a": "\\ud83d\\ude00", "b": "\\/"}', {"a": "\U0001f600", "b": "/"}),
        ("x: &x {a: 1, b: 2}\ny: {b: 3, <<: *x}", {"x": {"a": 1, "b": 2}, "y": {"a": 1, "b": 3}}),
        ("- &x {a: 1}\n- &y {a: 2, b: 2}\n- {<<: [*x, *y]}", [{"a": 1}, {"a": 2, "b": 2}, {"a": 1, "b": 2}]),
        ("a: 1\n---\n", {"a": 1}),
    ],
)
def test_a_text_means(text, value):
    found = read(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: 1\nb: 2\na: 3", "line 3: a: given twice"),
        ("x:\n  y: {a: 1, a: 1}", "line 2: x.y.a: given twice"),
        ("a: 1\n---\nb: 2", "line 3: the file: 2 documents: only one is allowed"),
        ("a: [1", "line 1: the file: not YAML or JSON at column 6: "),
        ("a: b: c", "line 1: the file: not YAML or JSON at column 5: "),
        ("a:\n\t- b", "line 2: the file: not YAML or JSON at column 1: "),
        ("? [a]\n: b", "line 1: the file: a list or a map as a key: "),
        ("a: !!python/object:x {}", "line 1: a: the tag "),
        ("a: !!set {b}", "line 1: a: the tag "),
        ("a: !!binary aGk=", "line 1: a: the tag "),
        ("a: {<<: 5}", "line 1: a: << merges a value that is not a map"),
        ("&a [*a]", "line None: [0][0][0][0]: nested too deeply"),
        ("[" * 60 + "]" * 60, "line None: [0][0][0][0]: nested too deeply"),
        ("[" * 500, "line None: the file: nested too deeply"),
        ("*nowhere", "line 1: the file: not YAML or JSON at column 1: found undefined alias"),
        ("a\x00b", "line None: the file: not YAML or JSON: "),
        ('"\\UFFFFFFFF"', "line None: the file: not YAML or JSON: "),
    ],
)
def test_a_text_that_can_not_be_read_is_refused_with_its_place(text, fault):
    with pytest.raises(UnreadableConfig) as refused:
        read(text)
    (found,) = refused.value.faults
    assert f"line {found.line}: {found}".startswith(fault)


def test_aliases_of_aliases_do_not_grow_without_limit():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    with pytest.raises(UnreadableConfig, match="too many values"):
        read("\n".join(lines))


def test_a_file_that_is_too_large_is_refused_before_it_is_read():
    with pytest.raises(UnreadableConfig, match="too large"):
        read_document(b" " * (MAX_CONFIG_BYTES + 1))


def test_bytes_that_are_no_text_are_refused_with_their_place():
    with pytest.raises(UnreadableConfig) as refused:
        read_document(b"a: 1\nb: \xff")
    (fault,) = refused.value.faults
    assert fault.line == 2
    assert "UTF-8 is required (byte 9)" in str(fault)


def test_every_value_knows_its_line():
    document = read_document(b"a:\n  - b\n  - c: 1\n    d: 2\n")
    assert document.line(("a", 1, "d")) == 4
    assert document.line(("a", 1, "missing")) == 3
    assert document.line(("missing",)) == 1
