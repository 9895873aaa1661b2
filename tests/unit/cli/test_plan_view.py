"""How plans look: on wide and narrow terminals, in colour or not, and in a pipe."""

import io
import os
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from rescheduler.api.podmigration import Handover
from rescheduler.cli import main, terminal
from rescheduler.cli.plan_view import plan_lines
from rescheduler.cli.terminal import Terminal, terminal_of
from rescheduler.cluster.node_record import NodeChange
from rescheduler.planner.plan import Move, NodeLoadChange, Plan, PlannedNodeChange, Rejection

LONG = "team-payments/checkout-with-a-very-long-name-7f9c4d5b6d-x2kqp"


def unstyled(line: str) -> str:
    return terminal._STYLE.sub("", line)


def move(number: int, **parts: object) -> Move:
    given = {
        "pod": f"{LONG}{number}", "uid": f"u{number}", "source": "ip-10-0-1-23.eu-west-1.compute.internal",
        "target": "ip-10-0-1-99.eu-west-1.compute.internal", "strategy": "ResourceOptimization",
        "handover": Handover.ADOPT, "reason": "cpu: source 92.5%, target 45.0%", "gain": 0.1, "wave": number,
    }  # fmt: skip
    return Move(**(given | parts))


def outlook(number: int, before: float, after: float) -> NodeLoadChange:
    return NodeLoadChange(
        f"node-{number:03}", {"cpu": before, "memory": 20.0}, {"cpu": after, "memory": 20.0}
    )


EXAMPLES = Path(__file__).parents[3] / "examples"
PLAN = Plan(
    taken_at_s=0.0,
    moves=(move(0), move(1, hop=True), move(2, group="gang", target=None)),
    changes=(PlannedNodeChange("node-001", NodeChange.CORDON, "NodeMaintenance", "its label asks for it"),),
    nodes=(outlook(0, 92.5, 61.2), outlook(1, 10.0, 41.3)),
    refused=tuple(Rejection(f"shop/{name}", "TooYoung", "", "it is 1m old") for name in "abcde"),
    refused_counts={"TooYoung": 1234},
    assumptions=(
        "no PodDisruptionBudget protects any pod, because the file has no poddisruptionbudgets in it at all",
    ),
)


@pytest.mark.parametrize("width", [40, 80, 120, 200])
@pytest.mark.parametrize("colour", [True, False])
def test_no_line_is_wider_than_the_terminal(width, colour):
    for line in plan_lines(PLAN, Terminal(width, colour)):
        plain = unstyled(line)
        # Bars can't give way: below 80 columns they may stick out.
        assert len(plain) <= max(width, 80), plain


def test_on_80_columns_each_move_takes_several_lines_and_names_stay_whole():
    """The next command needs the name of the pod: `explain pod/…`, `move pod/…`."""
    lines = [unstyled(line) for line in plan_lines(PLAN, Terminal(80))]
    head = lines.index(next(line for line in lines if line.startswith("WAVE")))
    assert lines[head + 1 : head + 5] == [
        "1     team-payments/checkout-with-a-very-long-name-7f9c4d5b6d-x2kqp0",
        "      ip-10-0-1-23.eu-west-1.compute.internal →",
        "      ip-10-0-1-99.eu-west-1.compute.internal",
        "      ResourceOptimization, Adopt: cpu: source 92.5%, target 45.0%",
    ]


def test_in_a_pipe_everything_is_complete():
    text = "\n".join(plan_lines(PLAN, Terminal(None)))
    assert "…" not in text
    for each in PLAN.moves:
        assert each.pod in text
    for name in "abcde":
        assert f"shop/{name}: it is 1m old" in text
    assert "1234  TooYoung" in text


def test_a_terminal_shows_examples_and_how_many_more():
    text = "\n".join(plan_lines(PLAN, Terminal(100)))
    assert [f"shop/{name}: it is 1m old" in text for name in "abcd"] == [True, True, True, False]
    assert "and 1231 more" in text
    assert "Wait, or lower `minPodAge`." in text


def test_a_single_refusal_is_reported_once():
    one = Plan(taken_at_s=0.0, refused=(Rejection("shop/a", "TooYoung", "", "it is 1m old"),))
    lines = plan_lines(one, Terminal(100))
    assert [unstyled(line).strip() for line in lines if "shop/a" in line] == ["shop/a: it is 1m old"]


def test_hops_groups_and_open_targets_are_said():
    text = "\n".join(plan_lines(PLAN, Terminal(None)))
    assert "cpu: source 92.5%, target 45.0%; intermediate stop" in text
    assert "moves with group gang" in text
    assert "→ to be chosen" in text
    assert "  - cordon node-001 (NodeMaintenance): its label asks for it" in text


def test_of_many_nodes_those_are_shown_that_change():
    many = Plan(
        taken_at_s=0.0,
        moves=(move(0),),
        nodes=(outlook(0, 90.0, 60.0), *(outlook(number, 50.0, 50.0) for number in range(1, 100))),
    )
    text = "\n".join(plan_lines(many, Terminal(120)))
    assert "node-000" in text
    assert "node-001" not in text
    assert "and 99 other nodes, none with a changed load" in text


def test_bars_are_drawn_in_proportion_and_in_ascii_where_need_be():
    text = "\n".join(plan_lines(PLAN, Terminal(None)))
    assert "█████████▎  92% → ██████▏     61%" in text
    plain = "\n".join(plan_lines(PLAN, Terminal(None, unicode=False)))
    assert "#########   92% -> ######      61%" in plain
    assert plain.isascii()


# --- terminals


class Tty(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def test_a_terminal_has_colours_and_a_width(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((132, 40)))
    assert terminal_of(Tty()) == Terminal(132, True, True)


@pytest.mark.parametrize("variable", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_color_means_no_colors(monkeypatch, variable):
    for name, value in variable.items():
        monkeypatch.setenv(name, value)
    assert not terminal_of(Tty()).colour


def test_a_pipe_has_neither():
    found = terminal_of(io.StringIO())
    assert (found.width, found.colour) == (None, False)


@pytest.mark.parametrize("width", [120, 130, 150, 200])
def test_no_reason_is_cut(width):
    """`memory: source 3…8%` would be another number."""
    reason = "worker-3 in maintenance, requested by ann@example.com, target 22.4%"
    names = {"pod": "shop/search-58cfc7d8cf-8c5m5", "source": "worker-3", "target": "worker-6"}
    lines = list(plan_lines(Plan(taken_at_s=0.0, moves=(move(0, reason=reason, **names),)), Terminal(width)))
    assert all(len(line) <= width for line in lines)
    text = "\n".join(lines)
    assert "…" not in text
    assert reason in " ".join(text.split())


def test_each_pod_that_is_not_moved_is_shown_with_its_own_reason():
    """Two pods may be kept by two budgets."""
    kept = tuple(
        Rejection(f"shop/{name}", "BudgetSpent", "", f"the budget {name} is spent") for name in "abcd"
    )
    plan = Plan(taken_at_s=0.0, refused=kept, refused_counts={"BudgetSpent": 7})
    text = "\n".join(plan_lines(plan, Terminal(80)))
    for name in "abc":
        assert f"shop/{name}: the budget {name} is spent" in text
    assert "and 4 more" in text


def test_a_metric_that_is_not_known_of_a_node_is_not_shown_as_nothing():
    """Metrics that the configuration adds are shown beside cpu and memory; other resources are not."""
    loads = {"cpu": 40.0, "memory": 10.0, "pods": 3.0, "nvidia.com/gpu": 50.0}
    known = NodeLoadChange("a", {**loads, "cpu-pressure": 42.0}, {**loads, "cpu-pressure": 21.0})
    unknown = NodeLoadChange("b", loads, loads)
    lines = list(plan_lines(replace(PLAN, nodes=(known, unknown)), Terminal(None)))
    assert "cpu-pressure: nodes between 42% and 42% → 21% and 21% (deviation 0.0 → 0.0)" in lines
    (head,) = [line for line in lines if line.startswith("NODE")]
    assert head.split() == ["NODE", "CPU", "MEMORY", "CPU-PRESSURE"]
    assert next(line for line in lines if line.startswith("a ")).endswith("21%")
    assert next(line for line in lines if line.startswith("b ")).endswith("unknown")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        pytest.param("-1", "-1 is negative", id="negative"),
        pytest.param("2E", "2E is implausibly large", id="huge"),
        pytest.param("NaN", "cpu-pressure is not balanced", id="no number"),
    ],
)
def test_an_odd_value_of_a_metric_in_a_file_is_not_used(tmp_path, value, why):
    """The metric is left out, and the plan says why. The example has 420m there."""
    saved = tmp_path / "cluster.yaml"
    text = (EXAMPLES / "cpu-pressure.yaml").read_text(encoding="utf-8")
    assert '"cpu-pressure": "420m"' in text
    saved.write_text(text.replace('"cpu-pressure": "420m"', f'"cpu-pressure": "{value}"'), encoding="utf-8")
    config = str(EXAMPLES / "pressure-relief.yaml")
    result = CliRunner().invoke(main, ["plan", "--from", str(saved), "--config", config])
    assert result.exit_code == 0, result.output
    assert "Nothing to move" in result.stdout
    assert why in result.stdout
