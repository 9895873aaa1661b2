"""Values of annotations that tenants may write: whatever they are, the plan is made, and others move."""

import pytest

from rescheduler.api import well_known_names
from rescheduler.config.policy import Policy
from rescheduler.planner.explanation import explain_node, explain_pod
from rescheduler.planner.plan_builder import build_plan
from rescheduler.recovery.recovery_decision import RETRIES_ANNOTATION
from rescheduler.strategies.strategy_registry import strategies_of
from tests.building import cluster

NAMES = [
    *(
        value
        for name, value in vars(well_known_names).items()
        if name.endswith("_ANNOTATION") and isinstance(value, str)
    ),
    RETRIES_ANNOTATION,
    "karpenter.sh/do-not-disrupt",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "controller.kubernetes.io/pod-deletion-cost",
    "kse.com/retries",
]
VALUES = {
    "nothing": "",
    "a huge number": "9" * 5000,
    "a negative number": "-9223372036854775809",
    "no number": "NaN",
    "infinity": "1e999",
    "a long duration": "2562047h47m16.854775807s",
    "too long a duration": "99999999999999h",
    "a negative duration": "-1h",
    "the end of time": "9999-12-31T23:59:59-23:59",
    "the begin of time": "0001-01-01T00:00:00+23:59",
    "a time without zone": "2026-01-01T00:00:00",
    "deep JSON": "[" * 50_000,
    "a list of everything": '["' + '","'.join(map(str, range(30_000))) + '"]',
    "half a character": '["\\ud800"]',
    "control characters": "\x1b[2J\x00\u202e\u2028",
    "digits of other scripts": "\u0663\u0664",
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_no_value_stops_the_plan(value):
    marks = dict.fromkeys(NAMES, value)
    maintained = {well_known_names.MAINTENANCE_LABEL: "true"}
    building = (
        cluster()
        .node("a", labels=maintained, annotations=marks)
        .node("b", annotations=marks)
        .deployment("evil/web", replicas=2, on=["a"], annotations=marks)
        .stateful_set("evil/db", replicas=1, on=["a"], annotations=marks)
        .pod("evil/bare", on="a", annotations=marks)
        .pod("evil/failing", on="a", annotations=marks, ready=False, phase="Failed")
        .deployment("shop/web", replicas=1, on=["a"])
    )
    snapshot = building.snapshot()
    policy = Policy(enabled_strategies=("FailedPods", "NodeMaintenance", "LoadBalancing"))
    plan = build_plan(snapshot, policy, strategies_of(policy))
    assert "shop/web-1-0" in {move.pod for move in plan.moves}
    for pod in ("evil/web-1-0", "evil/db-0", "evil/bare", "evil/failing"):
        explain_pod(snapshot, policy, pod)
    explain_node(snapshot, policy, "a")
