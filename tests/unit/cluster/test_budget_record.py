"""Which fields of a PodDisruptionBudget are kept."""

from typing import Any

import pytest

from rescheduler.cluster.budget_record import BudgetRecord, decode_budget
from rescheduler.cluster.object_meta import UnreadableObject


def budget(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, generation: int = 1):
    metadata = {"name": "web", "namespace": "shop", "uid": "u", "generation": generation}
    return decode_budget({"metadata": metadata, "spec": spec or {}, "status": status or {}})


def test_everything_that_is_kept():
    found = budget(
        {"selector": {"matchLabels": {"app": "web"}}, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        {
            "disruptionsAllowed": 1,
            "currentHealthy": 3,
            "desiredHealthy": 2,
            "expectedPods": 4,
            "observedGeneration": 1,
        },
    )
    assert isinstance(found, BudgetRecord)
    assert (found.key, found.namespace, found.name) == ("shop/web", "shop", "web")
    assert (found.disruptions_allowed, found.current_healthy) == (1, 3)
    assert (found.desired_healthy, found.expected_pods) == (2, 4)
    assert found.is_current
    assert found.always_allows_unhealthy


@pytest.mark.parametrize(
    ("spec", "labels", "expected"),
    [
        pytest.param({"selector": {"matchLabels": {"app": "web"}}}, {"app": "web"}, True, id="by label"),
        pytest.param({"selector": {"matchLabels": {"app": "web"}}}, {"app": "db"}, False, id="another label"),
        pytest.param({"selector": {}}, {"app": "db"}, True, id="an empty selector selects all"),
        pytest.param({}, {"app": "db"}, False, id="a missing selector selects none"),
        pytest.param({"selector": None}, {"app": "db"}, False, id="null is as good as missing"),
        pytest.param(
            {"selector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}},
            {},
            True,
            id="by expression",
        ),
    ],
)
def test_which_pods_it_protects(spec: dict[str, Any], labels: dict[str, str], expected: bool):
    assert budget(spec).pods().matches(labels) is expected


def test_a_status_that_is_about_an_earlier_budget_is_not_current():
    assert not budget({}, {"observedGeneration": 1}, generation=2).is_current
    assert budget({}, {"observedGeneration": 2}, generation=2).is_current


def test_it_does_not_allow_unhealthy_pods_to_go_unless_it_says_so():
    assert not budget().always_allows_unhealthy
    assert not budget({"unhealthyPodEvictionPolicy": "IfHealthyBudget"}).always_allows_unhealthy


def test_what_is_invalid_is_refused_with_its_name():
    with pytest.raises(UnreadableObject, match=r"PodDisruptionBudget shop/web: status\.disruptionsAllowed: "):
        budget({}, {"disruptionsAllowed": "many"})
