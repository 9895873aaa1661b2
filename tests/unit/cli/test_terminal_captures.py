"""Commands on terminals of 60, 80, 120 and 200 columns: no line breaks, and no name is cut."""

import asyncio
import contextlib
import io
import json
import re
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from rich.console import Console

from rescheduler.api.daemon_status import NodeInMaintenance
from rescheduler.api.podmigration import PodReference
from rescheduler.cli import main
from rescheduler.cli.cluster_source import exit_with_error, print_note
from rescheduler.cli.progress_display import (
    LiveProgressDisplay,
    drain_display_for,
    progress_display_for,
)
from rescheduler.cli.terminal import Terminal, cut_sentence
from rescheduler.migrations.transition_table import MigrationStep
from tests.building import cluster as cluster_builder
from tests.unit.cli.conftest import SAVED_AT
from tests.unit.cli.live_cluster import living_objects, write_config
from tests.unit.cli.simulated_server import served
from tests.unit.cli.terminal_capture import captured, captured_display, captured_errors
from tests.unit.cli.test_move_status import move_progress
from tests.unit.cluster.sources.rich_cluster import complete, saved

OTHER_WIDTHS = [pytest.param(width, marks=pytest.mark.size) for width in (80, 200)]
WIDTHS = [60, 120, *OTHER_WIDTHS]
TABLE_WIDTHS = [*WIDTHS, pytest.param(100, marks=pytest.mark.size)]
NODE = "ip-10-0-1-{}.eu-west-1.compute.internal"


@pytest.fixture(scope="module")
def long_names(tmp_path_factory):
    """A saved cluster with names as clouds and companies choose them."""
    made = cluster_builder()
    for number in range(4):
        made.node(NODE.format(20 + number))
    made.deployment("checkout-production/payments-gateway", replicas=8, on=[NODE.format(20)], cpu="700m")
    made.stateful_set("checkout-production/ledger", replicas=2, on=[NODE.format(21)], cpu="1")
    file = tmp_path_factory.mktemp("saved") / "cluster.json"
    file.write_text(json.dumps(saved(complete(made.objects), saved_at=SAVED_AT)))
    return file


def check(capture, width, *names):
    """Every line fits, and the names are there as a whole."""
    too_wide = [line for line in capture.written if len(line) > width]
    assert not too_wide, capture.text
    for name in names:
        assert any(name in line for line in capture.lines), f"{name} is cut:\n{capture.text}"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("command", "names"),
    [
        pytest.param(
            ["plan"],
            [NODE.format(20), NODE.format(23), "checkout-production/payments-gateway-1-0"],
            id="plan",
        ),
        pytest.param(
            ["explain", "pod", "checkout-production/ledger-0"],
            ["checkout-production/ledger-0", NODE.format(21), NODE.format(22)],
            id="explain a pod",
        ),
        pytest.param(
            ["explain", "node", NODE.format(20)],
            [NODE.format(20), "checkout-production/payments-gateway-1-7"],
            id="explain a node",
        ),
        pytest.param(
            ["explain", "deploy/payments-gateway", "-n", "checkout-production"],
            ["can move", "checkout-production/payments-gateway-1-7"],
            id="explain a Deployment",
        ),
    ],
)
def test_a_saved_cluster(long_names, command, names, width):
    check(captured(*command, "--from", long_names, width=width), width, *names)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_simulation(width):
    file = Path(__file__).parents[3] / "examples" / "overloaded-node.yaml"
    capture = captured("simulate", "--from", file, "--checks", "1", width=width)
    check(
        capture,
        width,
        "shop/worker-1-a  node-1 → node-3",
        "InProgress: copy is ready, evicting the source pod",
    )


@pytest.fixture(scope="module")
def drained(tmp_path_factory):
    """The kubeconfig and the configuration of a cluster in which a node has been drained."""
    folder = tmp_path_factory.mktemp("drained")
    web = {
        "namespace": "checkout",
        "name": "payments-gateway",
        "cpu": "900m",
        "on": {"eu-west-1-compute-internal-1": 2},
    }
    pools = [{"name": "eu-west-1-compute-internal", "count": 3, "cpu": 4, "memory": "8Gi"}]
    config = write_config(folder / "config.json")
    objects = living_objects({"seed": 5, "pools": pools, "workloads": [web]})
    with served(objects, folder / "kubeconfig", alive=True) as kubeconfig:
        shown = captured(
            "drain",
            "eu-west-1-compute-internal-1",
            "--install",
            "--kubeconfig",
            kubeconfig,
            "--config",
            config,
            width=60,
        )
        yield kubeconfig, shown


def test_a_drain_of_60_columns(drained):
    check(drained[1], 60, "eu-west-1-compute-internal-1")
    assert "empty" in drained[1].text


@pytest.mark.parametrize("width", TABLE_WIDTHS)
@pytest.mark.parametrize("command", ["status", "migrations", "history"])
def test_a_live_cluster(run, drained, command, width):
    """Migrations are named, and from which node to which they moved, in the table or below its rows."""
    kubeconfig, _ = drained
    listed = run("migrations", "--kubeconfig", kubeconfig, "-o", "jsonpath={.items[*].metadata.name}").stdout
    capture = captured(command, "--kubeconfig", kubeconfig, width=width)
    assert listed
    nodes = (f"eu-west-1-compute-internal-{number}" for number in (1, 2, 3))
    check(capture, width, *(f"checkout/{name}" for name in listed.split()), *nodes)
    assert "…" not in capture.text


@pytest.mark.parametrize("width", WIDTHS)
def test_the_states_of_a_node(drained, width):
    node = "eu-west-1-compute-internal-1"
    capture = captured("explain", "node", node, "--kubeconfig", drained[0], "--defaults", width=width)
    check(capture, width, node)
    assert f"{node} is Ready, cordoned, in maintenance" in " ".join(capture.lines)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_details_of_a_migration(run, drained, width):
    """The names of the header are not repeated in each Event, and what is of one second is in its order."""
    listed = run("migrations", "--kubeconfig", drained[0], "-o", "json").stdout
    migration = json.loads(listed)["items"][0]
    name, pod = migration["metadata"]["name"], f"checkout/{migration['spec']['pod']['name']}"
    capture = captured("migrations", name, "-n", "checkout", "--kubeconfig", drained[0], width=width)
    check(capture, width, f"checkout/{name}", pod)
    assert capture.text.count(name) == 1
    moments = [
        line.split()[1] for line in capture.lines[capture.lines.index("Timeline") + 1 :] if line[2:3] != " "
    ]
    order = ["created", "MigrationStarted:", "CopyReady", "handed", "MigrationCompleted:", "finished:"]
    assert [each for each in moments if each in order] == order


@pytest.mark.parametrize("width", WIDTHS)
def test_the_difference_between_two_plans(long_names, tmp_path, width):
    saved_plan = tmp_path / "plan.json"
    CliRunner().invoke(main, ["plan", "--from", str(long_names), "--save", str(saved_plan)])
    config = write_config(tmp_path / "config.json", imbalanceThreshold=100)
    arguments = ("plan", "--from", long_names, "--config", config, "--diff", saved_plan)
    capture = captured(*arguments, width=width)
    check(capture, width, "- checkout-production/payments-gateway-1-0", NODE.format(20), NODE.format(22))


@pytest.mark.parametrize("width", WIDTHS)
def test_what_uninstall_would_remove(drained, width):
    capture = captured("uninstall", "--check", "--history", "--kubeconfig", drained[0], width=width)
    check(capture, width, "scheduler.alpha.kubernetes.io/original-pod-name")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "cpu", [pytest.param("3500m", id="fits now"), pytest.param("9", id="fits nowhere, with a reason")]
)
def test_the_fit_of_a_pod(long_names, tmp_path, cpu, width):
    """The node is what the user wants to know: it is never cut."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "model-training-with-a-long-name-0", "namespace": "checkout-production"},
        "spec": {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}]},
    }
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    capture = captured("fit", "-f", tmp_path / "pod.json", "--from", long_names, width=width)
    node = [NODE.format(21)] if cpu == "3500m" else []
    check(capture, width, "checkout-production/model-training-with-a-long-name-0", *node)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_drain_that_is_only_shown(drained, width):
    kubeconfig, _ = drained
    node = "eu-west-1-compute-internal-2"
    arguments = ("drain", node, "--dry-run", "--kubeconfig", kubeconfig, "--defaults")
    check(captured(*arguments, width=width), width, node)


@pytest.mark.parametrize("width", WIDTHS)
def test_an_undo_that_is_only_shown(drained, width):
    kubeconfig, _ = drained
    arguments = ("undo", "--since", "1h", "--dry-run", "--kubeconfig", kubeconfig, "--defaults")
    capture = captured(*arguments, width=width)
    check(capture, width, "checkout/payments-gateway-", "eu-west-1-compute-internal-1")
    assert "Dry run: nothing was changed." in capture.text


@pytest.mark.parametrize("width", WIDTHS)
def test_a_note_is_not_broken_within_a_word(width):
    """As a terminal does with a line that is too long."""
    shown = captured_errors(lambda: print_note("a note of " + "many words " * 30), width=width)
    assert len(shown.lines) > 1
    assert set(shown.text.split()) == {"note:", "a", "note", "of", "many", "words"}


@pytest.mark.parametrize("width", WIDTHS)
def test_an_error_is_not_broken_within_a_name(width):
    """The name of the pod is what the user copies into the next command."""
    pods = [POD.format(end * 5) for end in "abcde"]

    def fail():
        with pytest.raises(SystemExit):
            exit_with_error(f"pod checkout not found; did you mean {', '.join(pods)}?\n  - details", 1)

    shown = captured_errors(fail, width=width)
    check(shown, width, *pods)
    assert "  - details" in shown.lines


@pytest.mark.parametrize("width", WIDTHS)
def test_errors_in_a_configuration_are_not_broken_within_a_word(tmp_path, width):
    config = write_config(tmp_path / "config.json", enabledStrategies=["Balance"], podCooldown="5minutes")

    def check_config():
        with pytest.raises(SystemExit):
            main(["config", "check", str(config)], standalone_mode=False)

    shown = captured_errors(check_config, width=width)
    check(
        shown, max(width, len(f"{config}: 2 errors")), "CostOptimization", "ResourceOptimization", "5minutes"
    )


def test_a_plan_says_on_a_terminal_how_to_make_its_moves(cluster, tmp_path):
    """In a pipe it is only the plan."""
    config = write_config(tmp_path / "config.json")
    arguments = ("plan", "--kubeconfig", cluster, "--config", config)
    hint = "Nothing was moved. To move pods, run: rescheduler apply"
    assert captured(*arguments, width=80).lines[-1] == hint
    saved_plan = tmp_path / "plan.json"
    assert captured(*arguments, "--save", saved_plan, width=200).lines[-1] == f"{hint} {saved_plan}"
    narrow = captured(*arguments, "--save", saved_plan, width=len(str(saved_plan)) + 25).lines
    assert narrow[-2:] == [hint.removesuffix(" rescheduler apply"), f"  rescheduler apply {saved_plan}"]
    assert hint not in CliRunner().invoke(main, [*map(str, arguments)]).output


def test_what_is_wrong_with_an_option_is_not_broken_within_a_word():
    """The terminal would break what click prints."""

    def mistaken():
        with contextlib.suppress(SystemExit):
            main(["migrations", "--field-selector", "a=b"])

    check(captured_errors(mistaken, 60), 60, "Invalid value for --field-selector", "spec.targetNode,")


def test_the_answer_to_a_pause_is_not_broken_within_a_word(cluster):
    shown = captured("pause", "-n", "kube-system", "--kubeconfig", cluster, width=80)
    assert shown.lines == shown.written
    assert "the daemon in namespace kube-system starts no more moves" in " ".join(shown.lines)


POD = "checkout-production/payments-gateway-6755476f8c-{}"
COPY = "payments-gateway-6755476f8c-x2kqp"


def long_move(step, pod, **status):
    """A move between nodes with long names that began just now."""
    moving = move_progress(step, pod=POD.format(pod), **status)
    migration = moving.migration
    now = msgspec.structs.replace(migration.status, started_at=datetime.now(UTC), target_node=NODE.format(21))
    moving.migration = msgspec.structs.replace(migration, status=now)
    moving.move = replace(moving.move, source=NODE.format(20), target=NODE.format(21))
    return moving


def live_moves():
    """Moves in all states, with what they say."""
    done = {"finished_at": datetime.now(UTC)}
    return [
        long_move(MigrationStep.COMPLETED, "aaaaa", target_pod=PodReference(COPY, "uid"), **done),
        long_move(MigrationStep.FAILED, "bbbbb", message=f"no node has room for {COPY}", **done),
        long_move(MigrationStep.STARTING, "ccccc", message=f"waiting for copy {COPY} to become ready"),
        long_move(MigrationStep.QUEUED, "ddddd"),
    ]


def check_frame(frame, width, *names):
    """Every name is on one line as a whole, and no word is a part of one."""
    lines = frame.splitlines()
    assert all(len(line) <= width for line in lines), frame
    for name in names:
        assert any(name in line.split() for line in lines), f"{name} is cut:\n{frame}"
    known = {*names, COPY}
    for word in frame.split():
        is_part = any(
            len(word) > 5 and word.strip("…:") in name and word.strip("…:") != name for name in known
        )
        assert not is_part, f"{word} is a part of a name:\n{frame}"


@pytest.mark.parametrize("width", WIDTHS)
def test_the_bars_of_moves(width):
    """`apply`, `move` and `undo` show them while pods move."""

    async def show():
        display = progress_display_for("table")
        moves = live_moves()
        with display.showing(moves):
            for each in moves:
                display.on_progress(each)
            await asyncio.sleep(0)

    capture = captured_display(lambda: asyncio.run(show()), width)
    full = capture.frames[-2]
    assert "1 of 4 moves made" in full, capture.frames
    pods = [POD.format(end * 5) for end in "abcd"]
    check_frame(full, width, *pods, NODE.format(20), NODE.format(21))


@pytest.mark.parametrize("width", range(60, 201, 10))
@pytest.mark.parametrize("pod", ["shop/web-1", "shop/web-6649fd57f5-69zcc", POD.format("aaaaa")])
def test_the_countdown_of_a_move_is_never_cut(pod, width):
    countdown = "copy ready, settling 100/120 s"
    moving = long_move(MigrationStep.SETTLING, "aaaaa", message=countdown)
    moving.move = replace(moving.move, pod=pod, source="worker-1")
    out = io.StringIO()
    console = Console(file=out, width=width)

    async def show():
        display = LiveProgressDisplay(console, Terminal(width))
        with display.showing([moving]):
            console.print(display.frame())

    asyncio.run(show())
    assert countdown in out.getvalue()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_bars_of_a_drain(width):
    """Every running move is there, finished ones stay above, and the nodes are below."""
    nodes = [NodeInMaintenance(NODE.format(20), 2), NodeInMaintenance(NODE.format(22), 0)]
    moves = [*live_moves(), long_move(MigrationStep.SETTLING, "eeeee", message="copy ready, settling 2/10 s")]

    async def show():
        display = drain_display_for("table")
        with display.showing_nodes(lambda: nodes):
            for each in moves:
                display.on_progress(each)
            await asyncio.sleep(0)

    capture = captured_display(lambda: asyncio.run(show()), width)
    pods = [POD.format(end * 5) for end in "abcde"]
    check_frame(capture.text, width, *pods, NODE.format(20), NODE.format(22))
    assert capture.lines[-2].split() == [NODE.format(20), *capture.lines[-2].split()[1:-1], "moved"]
    assert capture.lines[-1].split() == [NODE.format(22), "empty"], "not `0 of 0 pods moved`"


@pytest.mark.parametrize("width", WIDTHS)
def test_ctrl_c_during_a_drain_leaves_no_stale_line(width):
    """The terminal echoes ^C where the cursor is: after a line of full width that would be the next line."""
    nodes = [NodeInMaintenance(NODE.format(20), 2)]

    async def show():
        terminal = sys.stdout  # which the display replaces meanwhile
        display = drain_display_for("table", stream=terminal)
        with display.showing_nodes(lambda: nodes):
            display.on_progress(long_move(MigrationStep.STARTING, "ccccc", message="waiting for the copy"))
            await asyncio.sleep(0)
            terminal.write("^C")
            display.interrupted()
            await asyncio.sleep(0.2)  # longer than a frame takes

    capture = captured_display(lambda: asyncio.run(show()), width)
    assert any("Press Ctrl-C again" in shown for shown in capture.frames)
    assert "Press Ctrl-C again" not in capture.text, "when it has ended, Ctrl-C has no effect"
    assert len([line for line in capture.lines if line.startswith(NODE.format(20))]) == 1, capture.text


@pytest.mark.parametrize(
    ("width", "cut"),
    [
        pytest.param(30, "no room on node-10 for web-2", id="it fits"),
        pytest.param(20, "no room on node-10 …", id="a word ends there"),
        pytest.param(17, "no room on …", id="within a name"),
        pytest.param(2, "…", id="not even one word fits"),
    ],
)
def test_a_sentence_is_cut_between_words(width, cut):
    """A part of a name would look like another name: `node-1` for `node-10`."""
    assert cut_sentence("no room on node-10 for web-2", width) == cut


def test_every_moment_of_a_real_drain_shows_whole_names(drained):
    """None of its frames has a name that ends in an ellipsis."""
    frames = drained[1].frames
    assert any("checkout/payments-gateway-" in frame for frame in frames), frames
    assert not [frame for frame in frames if re.search(r"\S…", frame)]
