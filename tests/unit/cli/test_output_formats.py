"""`-o jsonpath=…` as kubectl prints it, and the other formats of lists."""

import contextlib
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.cli.output_formats import TemplateError, rendered_template
from tests.unit.cli.terminal_capture import captured

LIST = {
    "kind": "List",
    "items": [
        {
            "metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "web"}},
            "status": {"phase": "Failed", "attempts": 3, "done": False},
        },
        {"metadata": {"name": "b"}, "status": {"phase": "Completed", "attempts": 1}},
        {"metadata": {"name": "c"}, "status": {"phase": "Failed", "attempts": 1}},
    ],
}


@pytest.mark.parametrize(
    ("template", "printed"),
    [
        pytest.param("{.items[*].metadata.name}", "a b c", id="several results are joined by a space"),
        pytest.param("{$.kind}", "List", id="a path may start at the root"),
        pytest.param("{.items[0].metadata.name}", "a", id="an index"),
        pytest.param("{.items[-1].metadata.name}", "c", id="an index from the end"),
        pytest.param("{.items[0:2].metadata.name}", "a b", id="a slice"),
        pytest.param("{.items[0,2].metadata.name}", "a c", id="a union"),
        pytest.param("{.items[0]['metadata'].name}", "a", id="a name in quotes"),
        pytest.param(r"{.items[0].metadata.labels.app\.kubernetes\.io/name}", "web", id="escaped dots"),
        pytest.param("{..name}", "a b c", id="at any depth"),
        pytest.param('{.items[?(@.status.phase=="Failed")].metadata.name}', "a c", id="a filter"),
        pytest.param("{.items[?(@.status.attempts>1)].metadata.name}", "a", id="a filter by number"),
        pytest.param("{.items[?(@.metadata.labels)].metadata.name}", "a", id="a filter by existence"),
        pytest.param(
            '{range .items[*]}{.metadata.name}{"\\t"}{.status.phase}{"\\n"}{end}',
            "a\tFailed\nb\tCompleted\nc\tFailed\n",
            id="a range with tabs and newlines",
        ),
        pytest.param("name={.items[1].metadata.name}!", "name=b!", id="text around it"),
        pytest.param("{.items[0].status.done} {.items[0].status.attempts}", "false 3", id="values as JSON"),
        pytest.param("{.nothing.here}", "", id="a missing key prints nothing"),
        pytest.param("{.items[1].metadata}", '{"name": "b"}', id="an object is printed as JSON"),
    ],
)
def test_templates_print_what_kubectl_prints(template, printed):
    assert rendered_template(template, LIST) == printed


@pytest.mark.parametrize(
    ("template", "why"),
    [
        pytest.param("{.items[", "unbalanced|can't read", id="a bracket that is not closed"),
        pytest.param("{.items", "unbalanced", id="a brace that is not closed"),
        pytest.param("{range .items[*]}{.kind}", "{range} without {end}", id="a range without end"),
        pytest.param("{.kind}{end}", "{end} without {range}", id="an end without range"),
        pytest.param("{items}", "starts with a dot", id="a path without a dot"),
        pytest.param("{}", "empty braces", id="nothing in braces"),
        pytest.param("{.items[?(@.phase==Failed)]}", "text needs quotes", id="a value without quotes"),
        pytest.param("{.items[::0]}", "a step of 0", id="a slice without progress"),
        pytest.param("{range .a}" * 20 + "{end}" * 20, "ranges inside each other", id="too deep"),
        pytest.param("{.a}" * 2000, "longer than", id="too long"),
    ],
)
def test_an_invalid_template_is_refused_with_the_reason(template, why):
    with pytest.raises(TemplateError, match=why.replace("{", r"\{").replace("}", r"\}")):
        rendered_template(template, LIST)


@given(st.text(alphabet="{}.[]*?@()'\"\\ ,:-0123abc=<>!$\n", max_size=60))
def test_any_text_is_rendered_or_refused(template):
    with contextlib.suppress(TemplateError):
        rendered_template(template, LIST)


def test_commands_take_templates_and_refuse_invalid_ones_before_they_ask_the_server(run, shop):
    names = run("plan", "--from", shop, "-o", "jsonpath={.moves[*].pod}")
    moves = json.loads(run("plan", "--from", shop, "-o", "json").stdout)["moves"]
    assert names.exit_code == 3, names.output
    assert names.stdout.split() == [move["pod"] for move in moves]
    refused = run("status", "--kubeconfig", "/nowhere", "-o", "jsonpath={.items")
    assert refused.exit_code == 2
    assert "invalid JSONPath template" in refused.stderr
    assert "'xml' is not one of table, json, yaml, jsonpath=TEMPLATE" in run("status", "-o", "xml").stderr


def test_a_wide_plan_has_all_columns_on_any_terminal(shop):
    assert not any("HANDOVER" in line for line in captured("plan", "--from", shop, width=60).written)
    wide = captured("plan", "--from", shop, "-o", "wide", width=60).written
    assert any("HANDOVER" in line for line in wide)


def test_waves_and_percentages_are_the_same_everywhere(run, shop):
    """In the table, in JSON and in reasons: the first wave is 1, and loads are those of the nodes below."""
    document = json.loads(run("plan", "--from", shop, "-o", "json").stdout)
    lines = run("plan", "--from", shop).stdout.splitlines()
    loads = {node["name"]: node["cpu"]["before"] for node in document["nodes"]}
    moves = document["moves"]
    assert moves[0]["wave"] == 1
    assert len({move["from"] for move in moves}) < len(moves), "several leave one node, and all say its load"
    for move in moves:
        assert move["reason"] == f"cpu: source {loads[move['from']]:.1f}%, target {loads[move['to']]:.1f}%"
    for move in moves:
        (row,) = [line.split() for line in lines if move["pod"] in line.split()]
        assert row[0] == str(move["wave"])
    for name, load in loads.items():
        (row,) = [line for line in lines if line.startswith(f"{name} ")]
        assert re.findall(r"(\d+)%", row)[0] == f"{load:.0f}"
