"""Metrics, alert rules and their tests, checked by promtool."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path

from rescheduler.daemon.listeners import CheckReport
from rescheduler.daemon.metrics import Metrics
from rescheduler.kube.api_resources import ApiCall
from rescheduler.planner.plan import NodeLoadChange, Plan
from tests.testbed.prometheus import promtool

RULES = Path(__file__).parents[3] / "deploy" / "prometheus"


def run(*arguments: str, content: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [promtool(), *arguments], cwd=RULES, input=content, capture_output=True, check=False
    )


def test_names_and_help_texts_follow_the_conventions_of_prometheus() -> None:
    meters = Metrics(lags=lambda: {"Pod": 1.0})
    nodes = (NodeLoadChange("n", {"cpu": 1.0, "memory": 1.0}, {}),)
    plan = Plan(taken_at_s=0, nodes=nodes, refused_counts={"JobPod": 1})
    meters.checked(
        CheckReport(
            number=1,
            at=datetime.now(UTC),
            took_s=0.1,
            planning_s=0.1,
            snapshot=None,  # type: ignore[arg-type]  # not read
            plan=plan,
            usage_source="",
            is_carried_out=True,
        )
    )
    meters.requested(ApiCall("list", "pods"), 200, 0.1)
    done = run("check", "metrics", content=meters.text())
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_the_alert_rules_are_valid() -> None:
    done = run("check", "rules", "alerts.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_alerts_fire_when_they_should_and_only_then() -> None:
    done = run("test", "rules", "alerts.test.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
