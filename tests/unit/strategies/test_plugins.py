"""Strategies of plugins: the documented template runs, arguments are validated, errors are isolated."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from rescheduler.config.config_loader import load_content
from rescheduler.config.config_validation import (
    STRATEGY_ENTRY_POINTS,
    ConfigurationError,
    plugin_argument_faults,
)
from rescheduler.config.policy import Policy
from rescheduler.planner.plan_builder import build_plan, too_hot_nodes
from rescheduler.planner.reasons import Reason
from rescheduler.strategies.load_balancing import LoadBalancing
from rescheduler.strategies.strategy import Proposal, ProposedMove
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
        env={**os.environ, "PYTHONPATH": str(folder)},
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
