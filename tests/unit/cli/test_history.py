"""`rescheduler history`, `undo` and `plan --diff`, over HTTP, in a simulated cluster that lives."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rescheduler.api.daemon_status import SpreadChange
from rescheduler.cli.history_view import history_lines, plan_diff_lines
from rescheduler.cli.terminal import Terminal
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.access import cluster_config
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.planner.plan import NodeLoadChange, Plan
from tests.unit.api.test_migration_journal import entry


@pytest.fixture
def until_evicted(cluster):
    """Wait until evicted pods are gone: until then they take up room on the node to go back to."""

    async def wait():
        access = cluster_config.load_cluster_access(str(cluster))
        async with HttpTransport(access) as network, asyncio.timeout(60):
            client = Client(network)
            while any(pod.is_terminating for pod in (await client.list(PODS)).items):  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    return lambda: asyncio.run(wait())


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_it_fits_terminals_of_any_width_and_leaves_nothing_out(width):
    """`undo` needs the names of migrations and plans, and why and where is what one looks for: on a narrow
    terminal, it is below each row."""
    spreads = (SpreadChange("cpu", 47.0, 17.0), SpreadChange("memory", 31.0, 17.0))
    why = "cpu: source 48.9%, target 1.6%, the most loaded node"
    more = {
        "plan": "a7230b76", "requested_by": "root@host-1", "spreads": spreads, "reason": why,
        "source": "ip-10-0-1-20.eu-west-1.compute.internal", "target": "worker-6",
    }  # fmt: skip
    entries = [
        entry(number, migration=f"shop/web-6649fd57f5-gnjmp-mrgb{number}", **more) for number in (1, 2)
    ]
    lines = list(history_lines(entries, Terminal(width)))
    assert max(map(len, lines)) <= width
    assert all(any(each.migration in line for line in lines) for each in entries)
    assert "Plan a7230b76, requested by root@host-1" in lines[0]
    assert any("STRATEGY" in line for line in lines) == (width == 200)
    text = " ".join(" ".join(lines).split())
    for shown in (more["source"], "worker-6", "LoadBalancing", "Completed", "0.0s"):
        assert text.count(shown) == 2, text
    if width < 200:
        assert text.count(f"LoadBalancing: {why}") == 2, text


def test_plans_of_one_history_have_the_same_columns():
    """Else every plan has another table, and nothing is below what it belongs to."""
    short, long = (
        entry(number, migration=f"shop/{'w' * size}", plan=f"plan-{number}")
        for number, size in ((1, 5), (2, 70))
    )
    lines = list(history_lines([short, long], Terminal(110)))
    heads = [line for line in lines if line.startswith("MIGRATION")]
    assert len(heads) == 2
    assert heads[0] == heads[1]


def test_a_wide_history_has_one_line_for_each_move_on_any_terminal():
    entries = [entry(number, reason="why " * 20, plan="a7230b76") for number in (1, 2)]
    lines = list(history_lines(entries, Terminal(60), is_wide=True))
    assert [sum(each.migration in line for line in lines) for each in entries] == [1, 1]
    assert all("LoadBalancing" in line and "why why" in line for line in lines if "shop/" in line)


def test_cancelled_moves_have_not_failed():
    ended = [
        entry(1),
        entry(2, outcome="Failed", failure="Cancelled"),
        entry(3, outcome="Failed", failure="X"),
    ]
    assert [*history_lines(ended, Terminal())][-1].startswith("3 moves: 1 completed, 1 failed, 1 cancelled;")


def test_the_user_in_the_heading_is_not_repeated_in_every_reason():
    told = entry(reason="a in maintenance, requested by ann, target 5%", requested_by="ann", plan="a7230b76")
    shown = "\n".join(history_lines([told], Terminal()))
    assert shown.count("requested by ann") == 1
    assert "a in maintenance, target 5%" in shown


def test_the_docs_show_what_is_printed():
    page = (Path(__file__).parents[3] / "docs" / "history.md").read_text()
    shown = page.split("$ rescheduler history\n")[1].split("```")[0]
    spreads = (SpreadChange("cpu", 47.0, 17.0), SpreadChange("memory", 31.0, 17.0))
    told = [
        ("shop/web-6649fd57f5-gnjmp-mrgbjjsm", "worker-2", 39, "cpu: source 45.0%, target 1.6%"),
        ("shop/web-6649fd57f5-kwtfg-slw6ktd7", "worker-1", 28, "cpu: source 48.9%, target 1.6%"),
        ("shop/cart-668f6779d-9hjfv-xdntlmsb", "worker-2", 28, "memory: source 31.8%, target 0.5%"),
    ]
    entries = [
        entry(
            migration=name, source=source, target="worker-6", reason=reason, spreads=spreads,
            plan="ef964a1d", requested_by="ann@laptop",
            finished_at=datetime(2026, 11, 17, 17, 24, second, tzinfo=UTC),
        )
        for name, source, second, reason in told
    ]  # fmt: skip
    assert list(history_lines(entries, Terminal())) == shown.splitlines()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_difference_of_plans_fits_terminals_of_any_width(width):
    loads = (NodeLoadChange("a", {"cpu": 80.0, "memory": 40.0}, {}), NodeLoadChange("b", {"cpu": 20.0}, {}))
    old, new = Plan(taken_at_s=1.0, nodes=loads), Plan(taken_at_s=2.0, nodes=loads)
    lines = list(plan_diff_lines(old, new, Terminal(width)))
    assert max(map(len, lines)) <= width
    assert "0 added, 0 removed, 0 with another target, 0 unchanged." in " ".join(lines)


def moves_of(rescheduler, *arguments):
    return json.loads(rescheduler("history", "-o", "json", *arguments).stdout)["moves"]


def test_a_plan_is_in_the_history_and_can_be_undone(rescheduler, until_evicted, tmp_path):
    """What moved, why and by whom; `undo` moves each pod back to its node, as a plan of its own."""
    saved = str(tmp_path / "plan.json")
    assert rescheduler("plan", "--save", saved).exit_code == 3
    assert rescheduler("apply", saved, "--yes", "--install").exit_code == 0
    moves = moves_of(rescheduler)
    assert {move["outcome"] for move in moves} == {"Completed"}
    (plan,) = {move["plan"] for move in moves}
    shown = rescheduler("history").stdout
    assert f"Plan {plan}, requested by " in shown
    assert "cpu spread " in shown
    assert f"{len(moves)} completed, 0 failed; 0.0 s without a ready pod." in shown

    diff = rescheduler("plan", "--diff", saved)
    assert f"{len(moves)} removed" in diff.stdout
    assert all(f"- {move['pod']}" in diff.stdout for move in moves)

    until_evicted()
    undone = rescheduler("undo", "--plan", plan, "--yes")
    assert undone.exit_code == 0, undone.output
    back = [move for move in moves_of(rescheduler) if move["plan"] != plan]
    assert {(move["podUid"], move["target"]) for move in back} == {
        (move["successorUid"], move["source"]) for move in moves
    }
    assert all(move["reason"].startswith("undo of ") for move in back)


def test_a_pod_goes_back_to_where_it_was_before_all_of_these_moves(rescheduler, until_evicted):
    """Moved twice within the time: it returns to the first node, in one move."""
    plan = json.loads(rescheduler("plan", "-o", "json").stdout)
    first = plan["moves"][0]
    nodes = [node["name"] for node in plan["nodes"] if node["name"] != first["from"]]
    assert rescheduler("move", first["pod"], "--to", nodes[0], "--install").exit_code == 0
    (moved,) = moves_of(rescheduler, "-n", first["pod"].partition("/")[0])
    second = f"{first['pod'].partition('/')[0]}/{moved['successor']}"
    assert rescheduler("move", second, "--to", nodes[1]).exit_code == 0
    until_evicted()
    undone = rescheduler("undo", "--since", "1h", "--yes")
    assert undone.exit_code == 0, undone.output
    newest = moves_of(rescheduler)[0]
    assert (newest["source"], newest["target"]) == (nodes[1], first["from"])


def test_one_migration_is_named_and_what_is_gone_is_refused(rescheduler, until_evicted):
    plan = json.loads(rescheduler("plan", "-o", "json").stdout)
    first = plan["moves"][0]
    assert rescheduler("move", first["pod"], "--install").exit_code == 0
    (moved,) = moves_of(rescheduler)
    until_evicted()
    namespace, _, name = moved["migration"].partition("/")
    assert moves_of(rescheduler, "-n", "other") == []
    unknown = rescheduler("undo", f"{namespace}/x{name}", "--yes")
    assert f"migration {namespace}/x{name} not found; did you mean {moved['migration']}?" in unknown.stderr
    undone = rescheduler("undo", name[:-3], "-n", namespace, "--yes")
    assert undone.exit_code == 0, undone.output
    again = rescheduler("undo", moved["migration"], "--yes")
    assert again.exit_code == 1
    assert "nothing was moved: no pod can go back" in again.stderr


def test_undo_asks_first_and_moves_nothing_without_an_answer(rescheduler, until_evicted):
    plan = json.loads(rescheduler("plan", "-o", "json").stdout)
    assert rescheduler("move", plan["moves"][0]["pod"], "--install").exit_code == 0
    until_evicted()
    refused = rescheduler("undo", "--since", "1h", stdin="n\n")
    assert refused.exit_code == 1
    assert "nothing was moved" in refused.stderr
    assert len(moves_of(rescheduler)) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name one MIGRATION, or use --plan ID or --since DURATION"),
        (("--plan", "a", "--since", "1h"), "name one MIGRATION"),
        (("--since", "soon"), "or days, such as 7d"),
        (("--since", "0s"), "must be longer than 0s"),
        (("--since", "1" * 5000 + "d"), "it has too many digits"),
    ],
)
def test_what_is_to_be_undone_must_be_clear(rescheduler, arguments, words):
    found = rescheduler("undo", *arguments)
    assert found.exit_code == 2
    assert words in found.stderr


def test_an_unknown_plan_names_the_command_that_lists_them(rescheduler):
    found = rescheduler("undo", "--plan", "none", "--install")
    assert found.exit_code == 1
    assert "plan none not found. To list moves, run: rescheduler history" in found.stderr
