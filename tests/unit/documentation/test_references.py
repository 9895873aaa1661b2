"""The pages that are written by hand name everything that exists."""

import ast
import re
from pathlib import Path

from rescheduler.daemon.metrics import Metrics
from rescheduler.migrations.controller.migration_log import _EVENT_OF_STEP
from tools.api_reference import reference

ROOT = Path(__file__).parents[3]


def recorded_events() -> set[str]:
    """Return the literal reasons in calls of an EventRecorder."""
    found = set()
    for path in (ROOT / "src/rescheduler").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if is_call and ast.unparse(node.func).endswith(("_events.record", "self._did")):
                found |= {
                    each.value
                    for each in node.args[1:2]
                    if isinstance(each, ast.Constant) and isinstance(each.value, str)
                }
    return found


def test_every_event_is_listed():
    page = (ROOT / "docs/events.md").read_text()
    events = recorded_events() | {name for name, _ in _EVENT_OF_STEP.values()}
    assert len(events) > 15
    assert [name for name in sorted(events) if f"`{name}`" not in page] == []


def test_every_listed_event_exists():
    """A name that no module contains was renamed or removed; those of maintenance have a prefix."""
    source = "".join(path.read_text() for path in (ROOT / "src/rescheduler").rglob("*.py"))
    listed = re.findall(r"`([A-Z]\w+)`", (ROOT / "docs/events.md").read_text())
    names = {name.removeprefix("Maintenance") for name in listed} - {"PodMigration"}
    assert [name for name in sorted(names) if f'"{name}"' not in source] == []


def test_every_metric_is_explained_where_monitoring_is():
    page = (ROOT / "docs/installing.md").read_text()
    names = {metric.name for metric in Metrics().registry.collect()}
    assert [name for name in sorted(names) if f"`{name}" not in page] == []


def test_the_reference_names_the_labels_of_metrics_that_have_no_series_yet():
    """Metrics by workload have none unless they are configured."""
    rows = [line for line in reference().splitlines() if line.startswith("| `rescheduler_workload_")]
    assert [row.split("|")[3].strip() for row in rows] == [
        "`namespace`, `kind`, `workload`, `outcome`",
        "`namespace`, `kind`, `workload`",
    ]
