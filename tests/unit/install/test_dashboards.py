"""Dashboard and alerts use metrics that exist; promtool tests the alerts in e2e."""

import json
import re
from pathlib import Path

import yaml

from rescheduler.daemon.metrics import Metrics

DEPLOY = Path(__file__).parents[3] / "deploy"
NAME = re.compile(r"\brescheduler_[a-z_]+\b")


def known():
    """Add what Prometheus appends to the name of a counter or a histogram."""
    names = set()
    for family in Metrics(lags=lambda: {"Pod": 1.0}).registry.collect():
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(
            family.type, ("",)
        )
        names |= {f"{family.name}{suffix}" for suffix in suffixes}
    return names


def test_the_dashboard_shows_metrics_that_exist():
    board = json.loads((DEPLOY / "grafana" / "rescheduler.json").read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    assert len(asked) > 20
    assert {name for each in asked for name in NAME.findall(each)} <= known()


def test_the_panels_of_the_dashboard_do_not_overlap():
    board = json.loads((DEPLOY / "grafana" / "rescheduler.json").read_text(encoding="utf-8"))
    taken = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_the_alerts_are_about_metrics_that_exist_and_say_what_to_do():
    (group,) = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]:
        assert set(NAME.findall(rule["expr"])) <= known(), rule["alert"]
        assert rule["annotations"].keys() == {"summary", "description"}
        assert rule["labels"]["severity"] in {"info", "warning"}


def test_every_alert_is_tested():
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text(encoding="utf-8"))
    tests = yaml.safe_load((DEPLOY / "prometheus" / "alerts.test.yaml").read_text(encoding="utf-8"))
    fired = {
        each["alertname"] for test in tests["tests"] for each in test["alert_rule_test"] if each["exp_alerts"]
    }
    assert fired == {rule["alert"] for group in rules["groups"] for rule in group["rules"]}


def test_the_documentation_lists_every_metric_and_no_other():
    families = Metrics(lags=lambda: {"Pod": 1.0}).registry.collect()
    names = {f"{family.name}{'_total' if family.type == 'counter' else ''}" for family in families}
    text = (DEPLOY.parent / "docs" / "installing.md").read_text(encoding="utf-8")
    assert set(NAME.findall(text)) == names
