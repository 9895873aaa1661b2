"""`rescheduler top` with Textual's pilot, on a simulated cluster over HTTP."""

import asyncio
import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from rescheduler.api.daemon_status import (
    DaemonStatus,
    DryRunEvidence,
    Halt,
    HaltReason,
    NodeLoad,
    ResourceBalance,
)
from rescheduler.api.well_known_names import MAINTENANCE_LABEL
from rescheduler.cli.cluster_source import ClusterSource
from rescheduler.cli.commands.top_command import LiveTop, _plan_words, show_while_loading
from rescheduler.cli.execution import Execution
from rescheduler.cli.status_view import MoveRow, NodeRow, TopState, sorted_nodes
from rescheduler.cli.top_screen import Confirmation, TextPage, TopScreen
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.config.policy import Configuration, Policy, UsageSource
from rescheduler.daemon.checker import CheckResult
from rescheduler.daemon.components import Rescheduler
from rescheduler.daemon.own_objects import read_state, write_status
from rescheduler.install.cluster_installation import install_definition
from rescheduler.kube import errors
from rescheduler.kube.access import cluster_config
from rescheduler.kube.api_resources import CONFIG_MAPS, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.migrations.controller.plan_execution import podmigration_for
from rescheduler.planner.plan import Plan
from tests.building import cluster as built
from tests.unit.daemon.test_dry_run import NOW

HOME = "kube-system"
POLICY = Policy(usage_source=UsageSource.REQUESTS, min_pod_age=timedelta())


@contextlib.asynccontextmanager
async def shown(kubeconfig, size=(120, 40), *, led=False):
    """Yields the client, the screen and the pilot, on a cluster without a daemon; `led` has a leader."""
    async with HttpTransport(cluster_config.load_cluster_access(str(kubeconfig))) as network:
        client = Client(network)
        await install_definition(client)
        rescheduler = Rescheduler(client, Configuration(policy=POLICY), lease_at=f"{HOME}/rescheduler")
        leading = rescheduler.lease.running() if led else contextlib.nullcontext()
        async with rescheduler.watching(), rescheduler.checking() as checker, leading:
            screen = TopScreen(LiveTop(rescheduler, checker, HOME), interval_s=0.2)
            async with screen.run_test(size=size) as pilot:
                await until(pilot, lambda: screen.refreshes)
                yield client, screen, pilot


async def until(pilot, holds, timeout_s=60):
    async with asyncio.timeout(timeout_s):
        while not holds():
            await pilot.pause(0.05)


def shows_page(screen, depth=2):
    """Whether a page of text is on top, and is complete."""
    is_on_top = len(screen.screen_stack) == depth and isinstance(screen.screen, TextPage)
    return is_on_top and bool(screen.screen.query("#page"))


def text_of(screen, query):
    return str(screen.screen.query_one(query).render())


async def test_nodes_are_sorted_filtered_and_explained_with_their_pods(cluster):
    async with shown(cluster) as (_, screen, pilot):
        nodes = screen.query_one("#nodes")
        names = [row.key.value for row in nodes.ordered_rows]
        assert len(names) > 1
        for _ in range(3):
            await pilot.press("s")
        assert [row.key.value for row in nodes.ordered_rows] == sorted(names)
        await pilot.press("slash", *names[0], "enter")
        assert [row.key.value for row in nodes.ordered_rows] == [names[0]]
        await pilot.press("enter")
        await until(pilot, lambda: shows_page(screen))
        assert names[0] in text_of(screen, "#page")
        await pilot.press("enter")
        await until(pilot, lambda: shows_page(screen, depth=3))
        assert "shop/" in text_of(screen, "#page")


async def test_a_node_in_maintenance_is_shown_as_such(cluster):
    async with shown(cluster) as (client, screen, pilot):
        labels = {MAINTENANCE_LABEL: "true"}
        change = merge_patch({"metadata": {"labels": labels}, "spec": {"unschedulable": True}})
        await client.patch(NODES, "node-2", change)
        await until(pilot, lambda: [each.state for each in screen._state.nodes].count("in maintenance") == 1)


async def test_the_plan_is_one_key_away(cluster):
    async with shown(cluster) as (_, screen, pilot):
        await pilot.press("p")
        await until(pilot, lambda: shows_page(screen))
        assert "LoadBalancing" in text_of(screen, "#page")
        await pilot.press("escape")
        assert len(screen.screen_stack) == 1


async def confirmed(pilot, key):
    """Press the key and `y`, and return the answer."""
    screen = pilot.app
    before = len(screen._notifications)
    await pilot.press(key)
    await until(pilot, lambda: isinstance(screen.screen, Confirmation))
    await pilot.press("y")
    await until(pilot, lambda: len(screen._notifications) > before)
    return list(screen._notifications)[-1].message


@pytest.mark.parametrize("key", ["P", "R"])
async def test_a_pause_that_no_daemon_would_see_is_refused(cluster, key):
    """A daemon that is installed later has its state in another namespace."""
    async with shown(cluster) as (client, _, pilot):
        assert "rescheduler is not installed in this cluster" in await confirmed(pilot, key)
        with pytest.raises(errors.NotFound):
            await client.get(CONFIG_MAPS, f"{HOME}/rescheduler-state")


async def test_pause_and_resume_ask_first(cluster):
    async with shown(cluster, led=True) as (client, screen, pilot):
        await pilot.press("P")
        await until(pilot, lambda: isinstance(screen.screen, Confirmation))
        await pilot.press("n")
        assert not (await read_state(client, HOME))[0].paused
        await pilot.press("P")
        await until(pilot, lambda: isinstance(screen.screen, Confirmation))
        await pilot.press("y")
        await until(pilot, lambda: "Paused by " in text_of(screen, "#summary"))
        assert (await read_state(client, HOME))[0].paused
        await pilot.press("R")
        await until(pilot, lambda: isinstance(screen.screen, Confirmation))
        await pilot.press("y")
        await until(pilot, lambda: "Paused by " not in text_of(screen, "#summary"))


async def test_a_move_is_shown_with_its_step_and_can_be_cancelled(cluster):
    async with shown(cluster, led=True) as (client, screen, pilot):
        move = screen._source._last.plan.moves[0]
        item = await client.create(POD_MIGRATIONS, podmigration_for(move, 0.0))
        key = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        moves = screen.query_one("#moves")
        await until(pilot, lambda: moves.row_count)
        assert [str(cell) for cell in moves.get_row(key)][1] == "Queued"
        await pilot.press("tab", "enter")
        await until(pilot, lambda: shows_page(screen))
        assert f"LoadBalancing: {move.reason}" in " ".join(text_of(screen, "#page").split())
        await pilot.press("escape")
        assert "Cancelling" in await confirmed(pilot, "c")
        found = (await client.list(POD_MIGRATIONS)).items
        assert not found or found[0]["metadata"].get("deletionTimestamp")


async def test_where_nothing_makes_moves_the_command_that_cancels_one_is_named(cluster):
    """A PodMigration that is only deleted keeps its finalizer until a process leads."""
    async with shown(cluster) as (client, screen, pilot):
        item = await client.create(POD_MIGRATIONS, podmigration_for(screen._source._last.plan.moves[0], 0.0))
        await until(pilot, lambda: screen.query_one("#moves").row_count)
        await pilot.press("tab")
        key = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        assert f"run: rescheduler migrations {key} --cancel" in await confirmed(pilot, "c")
        (kept,) = (await client.list(POD_MIGRATIONS)).items
        assert "deletionTimestamp" not in kept["metadata"]


async def test_halts_are_shown_and_text_from_the_cluster_is_no_markup(cluster):
    async with shown(cluster) as (client, screen, pilot):
        halt = Halt(HaltReason.FAILURE_RATIO, NOW, "[red]4 of 4[/red] failed\x1b[2J", "soon")
        await write_status(client, HOME, DaemonStatus(leader="d-1", version="1", halts=(halt,)))
        await until(pilot, lambda: "Halted: FailureRatio" in text_of(screen, "#summary"))
        assert "[red]4 of 4[/red] failed" in text_of(screen, "#summary")
        assert "\x1b" not in text_of(screen, "#summary")


async def test_the_balance_is_the_one_of_the_bars(cluster):
    """The daemon's last check is older: two numbers for one thing would contradict each other."""
    async with shown(cluster) as (client, screen, pilot):
        old = ResourceBalance("cpu", 50.0, NodeLoad("node-2", 11.0), NodeLoad("node-1", 99.0))
        await write_status(client, HOME, DaemonStatus(leader="d-1", version="1", balance=(old,)))
        await until(pilot, lambda: "Daemon: d-1" in text_of(screen, "#summary"))
        assert "Balance: cpu 0% to 90%, spread 90 points" in text_of(screen, "#summary")
        assert screen._state.nodes[0].cpu == 90.0


def test_nodes_that_are_too_hot_for_too_few_checks_are_named():
    """Without that, `top` says that there is nothing to move, and a minute later that there are three."""
    heating = ("n1 in 1 of 3 checks", "n2 in 2 of 3 checks", "n3 in 1 of 3 checks")
    snapshot = built().node("n1").snapshot()
    check = CheckResult(1, NOW, snapshot, Plan(taken_at_s=0.0), 0.1, UsageSource.METRICS, heating)
    words = "Plan: nothing to move yet (too hot: n1 in 1 of 3 checks, n2 in 2 of 3 checks …), load by metrics"
    assert _plan_words(check).startswith(words)


async def test_a_dry_run_is_shown_with_the_age_of_its_status(cluster):
    """A daemon that has ended leaves its last status behind."""
    async with shown(cluster) as (client, screen, pilot):
        updated = datetime.now(UTC) - timedelta(minutes=5)
        evidence = DryRunEvidence(NOW, 1)
        await write_status(client, HOME, DaemonStatus(leader="d-1", updated=updated, dry_run=evidence))
        await until(pilot, lambda: "dry run by d-1" in text_of(screen, "#summary"))
        assert "would have moved 1 pod, status written 5m" in text_of(screen, "#summary")


class Fixed:
    """A source that needs no cluster."""

    def __init__(self, error=None):
        self.error = error

    async def current_state(self):
        if self.error:
            raise self.error
        nodes = tuple(NodeRow(f"worker-{n}", 10.0 * n, 90.0 - 10 * n, n, "Ready") for n in range(8))
        move = MoveRow(
            "shop/web-1-abc", "copy ready, settling 6/10 s", "8s", "worker-1 → worker-2", "why", False
        )
        return TopState(("Daemon: d-1",), nodes, (move,))


async def test_a_cluster_that_can_not_be_read_is_reported_and_asked_again():
    source = Fixed(ConnectionError("no route"))
    screen = TopScreen(source, interval_s=0.05)
    async with screen.run_test() as pilot:
        await until(pilot, lambda: "Can't read the cluster: no route" in text_of(screen, "#summary"))
        source.error = None
        await until(pilot, lambda: "Daemon: d-1" in text_of(screen, "#summary"))


@pytest.mark.parametrize("width", [60, 80, 120, 200])
async def test_it_fits_terminals_of_any_width(width):
    screen = TopScreen(Fixed())
    async with screen.run_test(size=(width, 24)) as pilot:
        await until(pilot, lambda: screen.refreshes)
        assert screen.query_one("#nodes").size.width <= width
        assert screen.query_one("#moves").size.height >= 3


async def test_after_a_resize_the_columns_fit_at_once():
    """The next refresh may be an hour away."""
    screen = TopScreen(Fixed(), interval_s=3600)
    async with screen.run_test(size=(120, 24)) as pilot:
        await until(pilot, lambda: screen.refreshes)
        await pilot.resize_terminal(60, 24)
        await until(pilot, lambda: screen.query_one("#nodes").virtual_size.width <= 60, timeout_s=10)


def test_the_most_loaded_node_comes_first():
    rows = [NodeRow("b", 1, 9, 1, ""), NodeRow("a", 1, 2, 3, ""), NodeRow("c", 5, 1, 1, "")]
    assert [row.name for row in sorted_nodes(rows, "cpu", "")] == ["c", "a", "b"]
    assert [row.name for row in sorted_nodes(rows, "memory", "")] == ["b", "a", "c"]
    assert [row.name for row in sorted_nodes(rows, "name", "A")] == ["a"]


def test_without_a_terminal_it_names_the_other_command(run):
    found = run("top")
    assert found.exit_code == 2
    assert "run: rescheduler status" in found.stderr


# -- while the cluster is read


class Loading:
    """An execution that reads a cluster until the end of the test, or fails."""

    configuration = Configuration(policy=POLICY)

    def __init__(self, error=None):
        self.error = error
        self.is_closed = False

    @contextlib.asynccontextmanager
    async def watching(self, _client, *, only):
        assert only, "it moves nothing"
        try:
            if self.error:
                raise self.error
            yield await asyncio.Event().wait()
        finally:
            self.is_closed = True


class PilotedScreen(TopScreen):
    """A screen without a terminal, whose keys a function presses."""

    def __init__(self, press):
        super().__init__(interval_s=60)
        self._press = press

    async def run_async(self, **_options):
        return await super().run_async(headless=True, size=(100, 30), auto_pilot=self._press)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_it_is_shown_before_the_cluster_is_read_and_a_key_ends_it(key):
    """150,000 pods take several seconds: without a screen, one does not know whether it works."""
    seen = []

    async def press(pilot):
        screen = pilot.app
        await until(pilot, lambda: "Reading nodes, pods and migrations… " in text_of(screen, "#summary"))
        await pilot.press("s", "p", "P", "y")
        await until(pilot, lambda: any("still being read" in each.message for each in screen._notifications))
        seen.append(text_of(screen, "#summary"))
        await pilot.press(key)

    loading = Loading()
    async with asyncio.timeout(60):
        await show_while_loading(PilotedScreen(press), loading, None)
    assert "Press q to quit." in seen[0], "no key hides what is being done"
    assert loading.is_closed


async def test_a_cluster_that_may_not_be_read_closes_the_screen_and_the_error_is_reported():
    screen = PilotedScreen(lambda pilot: pilot.pause())
    showing = show_while_loading(screen, Loading(PermissionError("nodes is forbidden")), None)
    with pytest.raises(PermissionError):
        await asyncio.wait_for(showing, 60)


async def test_what_is_read_is_shown_as_soon_as_it_is_there(cluster):
    """As `plan`, it needs no PodMigration CRD. It says which cluster it shows: `P` pauses there."""

    async def press(pilot):
        await until(pilot, lambda: pilot.app.refreshes)
        assert f"Cluster: {access.server}, context simulator" in text_of(pilot.app, "#summary")
        assert "Plan: " in text_of(pilot.app, "#summary")
        assert pilot.app.query_one("#nodes").row_count == 3
        await pilot.press("slash", "ctrl+c")

    source = ClusterSource(None, str(cluster), None, None, None)
    execution = Execution(source, Loading.configuration)
    access = cluster_config.load_cluster_access(str(cluster))
    async with HttpTransport(access) as network, asyncio.timeout(60):
        await show_while_loading(PilotedScreen(press), execution, Client(network))


class ManyMoves(Fixed):
    """A source with finished moves, before which a new one begins."""

    def __init__(self):
        super().__init__()
        self.running = ()

    async def current_state(self):
        done = [
            MoveRow(
                f"reports/renderer-5db4c869b8-mx6x{n}-x965pr55",
                "Completed",
                f"{n}m ago",
                "worker-2 → worker-3",
                "memory: source 31.8%, target 0.5%",
                is_finished=True,
            )
            for n in range(9)
        ]
        state = await super().current_state()
        return replace(state, moves=(*self.running, *done))


@pytest.mark.parametrize("width", [60, 80, 120, 200])
async def test_a_move_that_begins_is_seen_at_once(width):
    """Above the finished ones, and without scrolling; nothing is wider than the screen."""
    source = ManyMoves()
    screen = TopScreen(source, interval_s=0.1)
    async with screen.run_test(size=(width, 30)) as pilot:
        await until(pilot, lambda: screen.refreshes)
        begun = MoveRow(
            "shop/web-9-new", "copy ready, settling 1/10 s", "1s", "worker-7 → worker-1", "", False
        )
        source.running = (begun,)
        # A screen is painted some time after what it shows was read.
        await until(pilot, lambda: "shop/web-9-new" in "\n".join(lines_of(screen)))
        text = "\n".join(lines_of(screen))
        moves = screen.query_one("#moves")
        assert "copy ready, settling 1/10 s" in text
        assert moves.max_scroll_x == 0, text
        assert "sour\n" not in text.replace(" ", ""), "no reason is cut within a word"
        nodes = screen.query_one("#nodes")
        assert nodes.size.height == nodes.row_count + 1, "no lines between the nodes and the moves"


LONG = "ip-10-0-1-{}.eu-west-1.compute.internal"


class LongNames:
    """A source with names as clouds and companies choose them."""

    async def current_state(self):
        nodes = tuple(NodeRow(LONG.format(n), 40.0 + n, 20.0, 7, "Ready, cordoned") for n in range(20, 24))
        move = MoveRow(
            "checkout-production/payments-gateway-64894ddd79-2n6s4-x7k2p9qd",
            "copy ready, settling 6/10 s",
            "12s",
            f"{LONG.format(20)} → {LONG.format(23)}",
            "cpu: source 85.0%, target 45.0%",
            is_finished=False,
        )
        return TopState(("Daemon: none",), nodes, (move,))


def lines_of(screen):
    return ["".join(segment.text for segment in strip) for strip in screen.screen._compositor.render_strips()]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
async def test_names_are_whole_on_every_terminal(width):
    """They are what the next command needs. Bars get shorter, and nodes go below the migration."""
    screen = TopScreen(LongNames(), interval_s=60)
    async with screen.run_test(size=(width, 30)) as pilot:
        await until(pilot, lambda: screen.refreshes)
        await until(pilot, lambda: "Quit" in "".join(lines_of(screen)))
        lines = lines_of(screen)
    text = "\n".join(lines)
    assert max(map(len, lines)) == width
    for name in (
        LONG.format(21),
        LONG.format(20) + " →",
        LONG.format(23),
        "checkout-production/payments-gateway-64894ddd79-2n6s4-x7k2p9qd"[: width - 2],
    ):
        assert name in text, text
    assert "settling 6/10 s" in text, text
    assert "63%" in text
