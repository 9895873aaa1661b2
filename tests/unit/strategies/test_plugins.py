"""Strategies of plugins: the documented template runs, arguments are validated, errors are isolated."""

import json
import os
import pkgutil
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from rescheduler.api.podmigration import STRATEGY_ENTRY_POINTS
from rescheduler.cluster.node_record import NodeChange
from rescheduler.config.config_loader import load_content
from rescheduler.config.config_validation import (
    ConfigurationError,
    plugin_argument_faults,
)
from rescheduler.config.policy import Policy
from rescheduler.planner.plan_builder import build_plan, too_hot_nodes
from rescheduler.planner.reasons import Reason
from rescheduler.rules.placement import Placement
from rescheduler.strategies import strategy_registry
from rescheduler.strategies.load_balancing import LoadBalancing
from rescheduler.strategies.strategy import NodeProposal, Proposal, ProposedMove, Room
from rescheduler.strategies.strategy_registry import strategies_of
from tests.building import cluster

PAGE = Path(__file__).parents[3] / "docs" / "strategies.md"
TEMPLATE = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL).group(1)


@pytest.fixture
def installed(tmp_path):
    """A package as pip installs it, with the template as its module; returns the folder for PYTHONPATH."""

    def install(source=TEMPLATE):
        folder = tmp_path / "site"
        about = folder / "leave_pool-1.0.dist-info"
        about.mkdir(parents=True)
        (folder / "leave_pool.py").write_text(source)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: leave-pool\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(
            f"[{STRATEGY_ENTRY_POINTS}]\nLeavePool = leave_pool:LeavePool\n"
        )
        return folder

    return install


def lopsided():
    return (
        cluster()
        .nodes("old-1", "old-2", labels={"pool": "legacy"})
        .node("new", labels={"pool": "new"})
        .deployment("shop/web", replicas=4, on=["old-1", "old-2"], cpu="1")
    )


def run(tmp_path, folder, args, command="plan"):
    saved, config = tmp_path / "cluster.json", tmp_path / "config.json"
    saved.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": lopsided().objects}))
    plugin = {"name": "Rescheduler", "args": {"minPodAge": "0s", **args}}
    profile = {"schedulerName": "default-scheduler", "pluginConfig": [plugin]}
    config.write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [profile],
            }
        )
    )
    program = str(Path(sys.executable).with_name("rescheduler"))
    arguments = (
        ["plan", "--from", saved, "--config", config] if command == "plan" else ["config", "check", config]
    )
    return subprocess.run(
        [program, *arguments, *(["-o", "json"] if command == "plan" else [])],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), os.environ.get("PYTHONPATH", "")))},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_template_has_25_lines_and_plans_moves(installed, tmp_path):
    """As an installed package, through its entry point, with its own argument."""
    code = [line for line in TEMPLATE.splitlines() if line.strip()]
    assert len(code) <= 25
    args = {"enabledStrategies": ["LeavePool"], "strategyArgs": {"LeavePool": {"pool": "legacy"}}}
    done = run(tmp_path, installed(), args)
    assert done.returncode == 3, done.stderr
    moves = json.loads(done.stdout)["moves"]
    assert {(move["strategy"], move["to"], move["reason"]) for move in moves} == {
        ("LeavePool", "new", "leaves pool legacy")
    }
    assert len(moves) == 4


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"pool": 7}, "strategyArgs.LeavePool.pool: 7 is not allowed: Input should be a valid string"),
        ({"pol": "a"}, 'strategyArgs.LeavePool: {"pol": "a"} is not allowed: there is no argument pol'),
    ],
)
def test_its_own_model_validates_its_arguments(installed, tmp_path, arguments, fault):
    args = {"enabledStrategies": ["LeavePool"], "strategyArgs": {"LeavePool": arguments}}
    done = run(tmp_path, installed(), args, command="config check")
    assert done.returncode == 2
    assert fault in done.stdout + done.stderr
    assert fault in PAGE.read_text() or "pool" not in arguments, "the docs show another text"


def test_a_plugin_that_raises_is_reported_and_the_others_are_used(installed, tmp_path):
    broken = TEMPLATE.replace("nodes = view.snapshot.nodes.records", "raise KeyError('pool')")
    args = {"enabledStrategies": ["LeavePool", "LoadBalancing"], "usageSource": "requests"}
    done = run(tmp_path, installed(broken), args)
    assert done.returncode == 3, done.stderr
    plan = json.loads(done.stdout)
    assert {move["strategy"] for move in plan["moves"]} == {"LoadBalancing"}
    (failure,) = [each for each in plan["refused"] if each["reason"] == "StrategyFailed"]
    assert re.fullmatch(r"LeavePool raised KeyError: 'pool' at .*leave_pool\.py:\d+", failure["detail"])


@pytest.mark.parametrize(
    ("code", "detail"),
    [
        pytest.param(
            "import nowhere",
            r"can't load the strategy LeavePool from .*: No module named 'nowhere' at .*leave_pool\.py:1",
            id="with the line of the plugin",
        ),
        pytest.param("x = 1", r"can't load .* has no attribute 'LeavePool'", id="no line of the plugin ran"),
        pytest.param(
            TEMPLATE.replace("yield Proposal(", "yield ("),
            r"LeavePool raised TypeError: propose\(\) yields tuple, not Proposal or NodeProposal",
            id="not a proposal",
        ),
        pytest.param(
            TEMPLATE.partition("        nodes = ")[0] + "        pass\n",
            r"LeavePool raised TypeError: propose\(\) returns NoneType, not an iterator of proposals",
            id="no generator",
        ),
    ],
)
def test_the_report_names_the_line_of_the_plugin_and_none_of_ours(installed, tmp_path, code, detail):
    args = {"enabledStrategies": ["LeavePool"], "strategyArgs": {"LeavePool": {"pool": "legacy"}}}
    done = run(tmp_path, installed(code), args)
    (failure,) = [each for each in json.loads(done.stdout)["refused"] if each["reason"] == "StrategyFailed"]
    assert re.fullmatch(detail, failure["detail"]), failure["detail"]


def test_config_check_names_a_plugin_that_can_not_be_loaded(installed, tmp_path):
    """Its arguments can't be validated, and no plan will have its moves."""
    args = {"enabledStrategies": ["LeavePool"], "strategyArgs": {"LeavePool": {"pool": "a"}}}
    done = run(tmp_path, installed("import nowhere"), args, command="config check")
    assert done.returncode == 0
    assert "note: no plan has moves of this strategy: can't load the strategy LeavePool from" in done.stderr
    assert "No module named 'nowhere'" in " ".join(done.stderr.split())


def test_a_plugin_that_can_not_be_imported_is_reported_and_the_others_are_used(installed, tmp_path):
    args = {"enabledStrategies": ["LeavePool", "LoadBalancing"], "usageSource": "requests"}
    done = run(tmp_path, installed("import nowhere"), args)
    assert done.returncode == 3, done.stderr
    (failure,) = [each for each in json.loads(done.stdout)["refused"] if each["reason"] == "StrategyFailed"]
    assert "can't load the strategy LeavePool from leave_pool:LeavePool (leave-pool)" in failure["detail"]
    assert "Traceback" not in done.stderr


class Wrong:
    name = "Wrong"

    def __init__(self, proposal):
        self.proposal = proposal

    def propose(self, view):
        yield self.proposal


@pytest.mark.parametrize(
    ("proposal", "words"),
    [
        pytest.param("a move", "propose() yields str, not Proposal or NodeProposal", id="no proposal"),
        pytest.param(Proposal((ProposedMove(99, 0, "", 1.0),)), "99 is not the row of a pod", id="no pod"),
        pytest.param(Proposal((ProposedMove(0, -1, "", 1.0),)), "-1 is not the row of a node", id="no node"),
    ],
)
def test_nonsense_is_no_proposal(proposal, words):
    policy = Policy(min_pod_age=Policy().min_pod_age * 0)
    plan = build_plan(lopsided().snapshot(), policy, [Wrong(proposal), LoadBalancing()])
    (failure,) = [each for each in plan.refused if each.reason == Reason.STRATEGY_FAILED]
    assert words in failure.detail
    assert {move.strategy for move in plan.moves} == {"LoadBalancing"}


def proposing(propose):
    """A strategy that does this."""
    return type("Wrong", (), {"name": "Wrong", "propose": lambda self, view: propose(view)})()


def failure_beside_load_balancing(strategy):
    """What the plan says of the strategy; the plan must otherwise be that of LoadBalancing alone."""
    policy, snapshot = Policy(min_pod_age=Policy().min_pod_age * 0), lopsided().snapshot()
    alone = build_plan(snapshot, policy, [LoadBalancing()])
    plan = build_plan(snapshot, policy, [strategy, LoadBalancing()])
    assert plan.moves == alone.moves != ()
    (failure,) = [each for each in plan.refused if each.reason == Reason.STRATEGY_FAILED]
    return failure.detail


class Unreadable(Exception):  # noqa: N818 - says what it is
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), BaseException("no"), Unreadable()])
def test_whatever_a_plugin_raises_it_does_not_end_the_daemon(error):
    def propose(view):
        raise error
        yield

    assert f"Wrong raised {type(error).__name__}: " in failure_beside_load_balancing(proposing(propose))


def test_an_interrupt_by_a_plugin_does_not_end_the_daemon_and_that_of_a_user_does():
    """Plans of the daemon are made in a thread. Ctrl-C arrives in the main thread."""

    def propose(view):
        raise KeyboardInterrupt
        yield

    with ThreadPoolExecutor() as threads:
        words = threads.submit(failure_beside_load_balancing, proposing(propose)).result()
    assert "Wrong raised KeyboardInterrupt" in words
    with pytest.raises(KeyboardInterrupt):
        failure_beside_load_balancing(proposing(propose))


@pytest.mark.parametrize(
    ("proposal", "words"),
    [
        pytest.param(Proposal((ProposedMove(0, 2, None, 1.0),)), "reason is NoneType, not str", id="no text"),
        pytest.param(Proposal((ProposedMove(0, 2, "x" * 5000, 1.0),)), "5000 characters", id="a long text"),
        pytest.param(
            Proposal((ProposedMove(0, 2, "\ud800", 1.0),)), "UnicodeEncodeError", id="half a letter"
        ),
        pytest.param(
            Proposal((ProposedMove(0, 2, "", float("nan")),)), "gain of a move is nan", id="no gain"
        ),
        pytest.param(Proposal((ProposedMove(0.5, 2, "", 1.0),)), "TypeError", id="half a pod"),
        pytest.param(Proposal((ProposedMove(True, 2, "", 1.0),)), "True is not the row of a pod", id="true"),
        pytest.param(Proposal(()).moves, "yields tuple", id="moves alone"),
        pytest.param(Proposal(None), "must be tuples", id="no moves"),
        pytest.param(
            Proposal((ProposedMove(0, 2, "", 1.0),), rooms=(Room(9, 9),)), "9 is not the row", id="no room"
        ),
        pytest.param(
            Proposal((ProposedMove(0, 2, "", 1.0),), rooms=(Room(1, 2),)), "needs no room", id="has a room"
        ),
        pytest.param(NodeProposal(0, "explode", ""), "'explode' is not a valid NodeChange", id="no change"),
        pytest.param(NodeProposal(0, NodeChange.CORDON, None), "reason is NoneType", id="no reason"),
    ],
)
def test_what_could_not_be_carried_out_is_no_proposal(proposal, words):
    """One such move would keep those of other strategies from being requested."""
    assert words in failure_beside_load_balancing(Wrong(proposal))


def test_a_plugin_that_repeats_what_was_refused_comes_to_an_end():
    def propose(view):
        here = int(view.placement.position[0])
        while view.room:
            yield Proposal((ProposedMove(0, here, "stays", 1.0),))

    assert "does not end" in failure_beside_load_balancing(proposing(propose))


def test_a_plugin_that_moves_pods_in_the_placement_changes_nothing_for_others():
    def propose(view):
        view.placement.move(0, 2)
        yield from ()

    assert "moves pods in view.placement" in failure_beside_load_balancing(proposing(propose))


test_is_over = threading.Event()


@pytest.fixture
def quick_timeout(monkeypatch):
    monkeypatch.setattr(strategy_registry, "PLUGIN_TIMEOUT_S", 0.2)
    monkeypatch.setattr(strategy_registry, "_hung", set())
    test_is_over.clear()
    yield
    test_is_over.set()
    for thread in threading.enumerate():
        if thread.name == Wrong.name:
            thread.join()


def computes(view):
    while not test_is_over.is_set():
        pass
    yield


def waits(view):
    test_is_over.wait()
    yield


def yields_without_end(view):
    """And takes a while for each."""
    while not test_is_over.wait(0.01):
        yield Proposal((ProposedMove(0, int(view.placement.position[0]), "stays", 1.0),))


@pytest.mark.parametrize("propose", [computes, waits, yields_without_end])
def test_a_plugin_that_does_not_return_is_left_out(quick_timeout, propose):
    asked = []

    def counted(view):
        asked.append(threading.current_thread())
        yield from propose(view)

    for _ in range(2):
        words = failure_beside_load_balancing(proposing(counted))
        assert words == "Wrong took longer than 0.2 s, and is not used until rescheduler is restarted"
    assert len(asked) == 1, "the second plan does not ask it again"


class NeverMade:
    """A strategy that waits for a server when it is made, which is once per check."""

    name = "NeverMade"
    made: ClassVar[list[threading.Thread]] = []

    def __init__(self):
        self.made.append(threading.current_thread())
        test_is_over.wait()

    def propose(self, view):
        yield from ()


def test_a_plugin_that_is_never_made_is_left_out(quick_timeout, monkeypatch):
    monkeypatch.setitem(sys.modules, "never_made_plugin", sys.modules[__name__])
    plugin = EntryPoint(NeverMade.name, "never_made_plugin:NeverMade", STRATEGY_ENTRY_POINTS)
    policy = Policy(enabled_strategies=(NeverMade.name, "LoadBalancing"))
    for _ in range(2):
        strategies = strategies_of(policy, [plugin])
        found = build_plan(lopsided().snapshot(), policy, strategies)
        (failure,) = (each for each in found.refused if each.reason is Reason.STRATEGY_FAILED)
        assert failure.detail.startswith("NeverMade took longer than 0.2 s")
    assert len(NeverMade.made) == 1, "the second plan does not make it again"


def test_what_a_plugin_that_does_not_return_has_tried_is_in_no_plan(quick_timeout):
    def propose(view):
        with view.placement.trial():
            for pod in range(len(view.snapshot.pods)):
                view.placement.move(pod, view.snapshot.nodes.row["new"])
            test_is_over.wait()
        yield

    policy, snapshot = Policy(min_pod_age=Policy().min_pod_age * 0), lopsided().snapshot()
    with_it = build_plan(snapshot, policy, [proposing(propose), LoadBalancing()])
    assert with_it.moves == build_plan(snapshot, policy, [LoadBalancing()]).moves != ()


def test_a_plugin_that_does_not_return_while_it_undoes_a_trial_breaks_no_plan(quick_timeout, monkeypatch):
    """One that tries moves without end is in the middle of that most of the time. Then the planner can't undo
    its own moves in the same placement."""
    is_undoing, change = threading.Event(), Placement._change

    def changed(placement, what):
        if is_undoing.is_set() and threading.current_thread().name == Wrong.name:
            test_is_over.wait()
        change(placement, what)

    def propose(view):
        with view.placement.trial():
            view.placement.move(0, view.snapshot.nodes.row["new"])
            is_undoing.set()
        yield

    monkeypatch.setattr(Placement, "_change", changed)
    policy, snapshot = Policy(min_pod_age=Policy().min_pod_age * 0), lopsided().snapshot()
    with_it = build_plan(snapshot, policy, [proposing(propose), LoadBalancing()])
    assert is_undoing.is_set()
    assert with_it.moves == build_plan(snapshot, policy, [LoadBalancing()]).moves != ()


def test_a_plugin_that_looks_for_hot_nodes_for_ever_is_reported(quick_timeout):
    strategy = proposing(lambda view: iter(()))
    type(strategy).too_hot = lambda self, view: test_is_over.wait()
    failures = []
    assert too_hot_nodes(lopsided().snapshot(), Policy(), [strategy], failures) == []
    assert [each.reason for each in failures] == [Reason.STRATEGY_FAILED]
    assert failures[0].by == "Wrong"


def test_a_plugin_that_reports_no_texts_is_reported():
    def propose(view):
        view.report_staying(0, object(), object())
        yield from ()

    assert "must be strings" in failure_beside_load_balancing(proposing(propose))


def test_pods_that_are_excluded_stay_whatever_a_plugin_proposes():
    def propose(view):
        for pod in range(len(view.snapshot.pods)):
            yield Proposal((ProposedMove(pod, view.snapshot.nodes.row["new"], "all", 1.0),))

    made = lopsided().deployment("kube-system/dns", on=["old-1"])
    made.pod("shop/kept", on="old-1", annotations={"karpenter.sh/do-not-disrupt": "true"})
    policy = Policy(min_pod_age=Policy().min_pod_age * 0)
    plan = build_plan(made.snapshot(), policy, [proposing(propose)])
    assert {move.pod.partition("-")[0] for move in plan.moves} == {"shop/web"}


def test_hot_nodes_of_another_number_are_those_of_no_cluster():
    strategy = proposing(lambda view: iter(()))
    type(strategy).too_hot = lambda self, view: np.array([True])
    failures = []
    assert too_hot_nodes(lopsided().snapshot(), Policy(), [strategy], failures) == []
    assert "Wrong raised ValueError" in failures[0].detail


def test_a_plugin_that_raises_when_it_looks_for_hot_nodes_is_reported():
    class Heated:
        name = "Heated"

        def too_hot(self, view):
            raise KeyError("heat")

        def propose(self, view):
            return iter(())

    snapshot, failures = lopsided().snapshot(), []
    assert too_hot_nodes(snapshot, Policy(), [Heated()], failures) == []
    plan = build_plan(snapshot, Policy(), [Heated()], failures=failures)
    (failure,) = [each for each in plan.refused if each.reason == Reason.STRATEGY_FAILED]
    assert "Heated raised KeyError: 'heat' at " in failure.detail


def test_a_bug_in_a_built_in_strategy_is_not_hidden():
    class Buggy:
        name = "LoadBalancing"

        def propose(self, view):
            raise KeyError("bug")

    with pytest.raises(KeyError, match="bug"):
        build_plan(lopsided().snapshot(), Policy(), [Buggy()])


def test_built_in_strategies_have_no_arguments_of_their_own():
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"pluginConfig": [{"name": "Rescheduler", "args": {"strategyArgs": {"LoadBalancing": {"a": 1}}}}]}
        ],
    }
    with pytest.raises(ConfigurationError, match="LoadBalancing is built in and has no arguments of its own"):
        load_content(json.dumps(content).encode(), {"LoadBalancing", "ResourceOptimization"}, source="it")


def test_a_strategy_without_a_model_takes_no_arguments(monkeypatch):
    monkeypatch.setitem(sys.modules, "wrong_plugin", sys.modules[__name__])
    plugins = [EntryPoint("Wrong", "wrong_plugin:Wrong", STRATEGY_ENTRY_POINTS)]
    (fault,) = plugin_argument_faults(Policy(strategy_args={"Wrong": {"a": 1}}), plugins)
    assert "takes no arguments" in str(fault)


def test_what_the_page_calls_public_exists():
    table = PAGE.read_text().partition("## What you can rely on")[2].partition("## ")[0]
    named = [
        name
        for row in re.findall(r"^\| (`rescheduler.*?) \|", table, re.MULTILINE)
        for name in row.split(", ")
    ]
    package = ""
    for name in (each.strip("`") for each in named):
        path = name if "." in name else f"{package}.{name}"
        package = path.rpartition(".")[0]
        assert pkgutil.resolve_name(path)
    assert len(named) >= 7
