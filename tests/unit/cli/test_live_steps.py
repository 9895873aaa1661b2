"""What an operator sees while pods move: the step of this moment and its countdown, and nothing erased."""

import asyncio
import io
import json
import re
import threading

import pytest
from rich.console import Console

from kubesim.scenario import initial_objects
from rescheduler.api.podmigration import PodReference
from rescheduler.cli.demo.demo_scenario import (
    ClusterMonitor,
    demo_scenario,
    install_prerequisites,
    running_daemon,
)
from rescheduler.cli.demo.demo_screen import LiveDemoScreen
from rescheduler.cli.progress_display import LiveProgressDisplay
from rescheduler.cli.terminal import Terminal
from rescheduler.install.manifests import install_manifests
from rescheduler.kube.client import Client
from rescheduler.migrations.transition_table import MigrationStep
from tests.unit.cli.command_process import spawned
from tests.unit.cli.live_cluster import living_objects, scenario, write_config
from tests.unit.cli.simulated_server import served
from tests.unit.cli.terminal_capture import captured, screen_lines
from tests.unit.cli.test_demo import EPOCH, InProcessTransport, run_virtual, simulated_server
from tests.unit.cli.test_move_status import NOW, move_progress


@pytest.fixture(scope="module")
def settling(tmp_path_factory):
    """The kubeconfig of a cluster in which a copy settles for ten minutes, as the installed daemon says."""
    folder = tmp_path_factory.mktemp("settling")
    config = write_config(folder / "config.json", settleTime="10m")
    items = install_manifests(namespace="ops", configuration=config.read_text())
    ours = [each for each in items if each["kind"] in {"ClusterRoleBinding", "ConfigMap", "Deployment"}]
    for each in ours:
        each.get("spec", {}).pop("replicas", None)
    objects = [*living_objects(scenario()), *ours]
    with (
        served(objects, folder / "kubeconfig", alive=True) as kubeconfig,
        spawned("apply", "--yes", "--install", "--kubeconfig", kubeconfig, "--config", config) as apply,
    ):
        apply.until("copy ready, settling")
        yield kubeconfig


@pytest.mark.parametrize("command", ["migrations", "status"])
def test_lists_show_the_step_of_the_copy_and_the_daemons_countdown(settling, command):
    """The status of a migration has only the steps that the next process must know, such as Marking."""
    shown = captured(command, "--kubeconfig", settling, width=200).text
    assert re.search(r"InProgress +Settling .*copy ready, settling \d+/600 s", shown), shown


def test_one_migration_is_shown_at_the_step_of_its_copy_with_its_events(run, settling):
    """`kubectl describe pmig` shows the same Events: they are on the PodMigration itself."""
    listed = json.loads(run("migrations", "-o", "json", "--kubeconfig", settling).stdout)["items"]
    name = listed[0]["metadata"]["name"]
    shown = run("migrations", "-n", "shop", name, "--kubeconfig", settling).stdout
    assert re.search(r"Phase +InProgress, Settling", shown), shown
    assert "settling" in shown
    assert "MigrationStarted" in shown
    events = json.loads(run("migrations", "-n", "shop", name, "-o", "json", "--kubeconfig", settling).stdout)[
        "events"
    ]
    assert {each["involvedObject"]["kind"] for each in events} == {"PodMigration"}
    assert {each["involvedObject"]["uid"] for each in events} == {listed[0]["metadata"]["uid"]}


def test_the_demo_shows_the_step_of_the_copy_too():
    objects = initial_objects(demo_scenario(), EPOCH)

    async def playing():
        server = simulated_server(objects, demo_scenario(), start=EPOCH)
        transport = InProcessTransport(server.handle)
        client = Client(transport)
        await install_prerequisites(client)
        screen = LiveDemoScreen(Console(file=io.StringIO(), width=160, height=60))
        monitor = ClusterMonitor(client, screen.migration, server.clock.now)
        async with monitor.watching(), running_daemon(client, server.clock.now), asyncio.timeout(60):
            screen.begin(monitor)
            shown = ""
            while "copy ready, settling" not in shown:
                await asyncio.sleep(0.2)
                with screen.console.capture() as frame:
                    screen.console.print(screen.frame())
                shown = frame.get()
        await transport.close()
        return shown

    assert re.search(r"Settling +copy ready, settling \d/2 s", run_virtual(playing()))


class ThreadNotingFile(io.StringIO):
    """Text, and which threads wrote it."""

    def __init__(self):
        super().__init__()
        self.threads = set()

    def write(self, text):
        self.threads.add(threading.get_ident())
        return super().write(text)


async def test_moves_that_end_together_all_stay_on_the_screen():
    """A redraw from another thread between erasing and printing would erase the lines of moves that ended."""
    moves = [
        move_progress(
            MigrationStep.COMPLETED,
            pod=f"shop/web-{number}",
            target_pod=PodReference("c", "u"),
            finished_at=NOW,
        )
        for number in range(40)
    ]
    written = ThreadNotingFile()
    console = Console(file=written, width=100, height=200, force_terminal=True, color_system=None)
    display = LiveProgressDisplay(console, Terminal(100, colour=True))
    with display.showing([*moves, move_progress(MigrationStep.STARTING)]):
        for number, move in enumerate(moves):
            display.on_progress(move)
            if number % 2:
                await asyncio.sleep(0.01)
    assert written.threads == {threading.get_ident()}, "frames and lines come from the event loop, in turn"
    lines = screen_lines(written.getvalue(), 100)
    assert [line.split()[1] for line in lines if line.startswith("✓")] == [move.move.pod for move in moves]


def test_a_list_of_migrations_is_selected_and_printed_as_kubectl_does(run, settling):
    """The cluster has one migration, of a pod on node-1."""

    def listed(*arguments):
        return run("migrations", *arguments, "--kubeconfig", settling)

    (name,) = listed("-o", "name").stdout.split()
    assert name.startswith("podmigration.rescheduler.dev/web-")
    assert listed("-o", "jsonpath={.items[*].spec.sourceNode}").stdout == "node-1"
    assert "HANDOVER" in listed("-o", "wide").stdout
    assert "HANDOVER" not in listed().stdout
    assert listed("--field-selector", "status.phase=InProgress,spec.sourceNode=node-1", "-o", "name").stdout
    assert listed("--field-selector", "status.phase!=InProgress", "-o", "name").stdout == ""
    assert listed("-l", "nobody=has-this", "-o", "name").stdout == ""
    assert listed("-n", "shop", name, "-o", "jsonpath={.status.phase}").stdout == "InProgress"
    unknown = listed("--field-selector", "status.mood=good")
    assert unknown.exit_code == 2
    assert 'unknown field "status.mood" (allowed: metadata.name,' in unknown.stderr
