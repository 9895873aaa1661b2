"""Usage over time: repeatable, within bounds, only of what runs."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.behaviour import SimulatedUsage, load_behaviour, node_usage, of_node, pod_usage

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MI = 1024 * 1024


def pod(requests: dict[str, str] | None = None, limits: dict[str, str] | None = None) -> dict[str, Any]:
    resources = {"requests": requests or {}, "limits": limits or {}}
    state = {"running": {"startedAt": "2026-03-01T12:00:00Z"}}
    return {
        "metadata": {"name": "p", "namespace": "d", "uid": "u"},
        "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "i", "resources": resources}]},
        "status": {"containerStatuses": [{"name": "main", "state": state}]},
    }


def used(usage: dict[str, Any], at: datetime = NOON, **resources: dict[str, str]) -> SimulatedUsage:
    return pod_usage(pod(**resources), load_behaviour({"pods": [{"usage": usage}]}), at)["main"]


@pytest.mark.parametrize(
    ("usage", "requests", "expected"),
    [
        pytest.param(
            {"cpu": "250m", "memory": "64Mi"}, {}, SimulatedUsage(250, 64 * MI), id="a fixed amount"
        ),
        pytest.param(
            {"cpu": "80%", "memory": "150%"},
            {"cpu": "2", "memory": "100Mi"},
            SimulatedUsage(1600, 150 * MI),
            id="a share of the request, also above it",
        ),
        pytest.param(
            {"cpu": "50%", "memory": "50%"}, {}, SimulatedUsage(50, 100 * MI), id="a share of no request"
        ),
        pytest.param({"cpu": 2}, {"memory": "2Mi"}, SimulatedUsage(2000, MI), id="unnamed: half the request"),
    ],
)
def test_a_level(usage: dict[str, Any], requests: dict[str, str], expected: SimulatedUsage) -> None:
    assert used(usage, requests=requests) == expected


def test_a_wave_has_its_peak_and_its_trough() -> None:
    daily = {"cpu": {"mean": "500m", "swing": "300m", "every": "24h", "peak": "14h"}}
    hours = {hour: used(daily, NOON.replace(hour=hour)).cpu_millis for hour in (2, 8, 14, 20)}
    assert hours == {2: 200, 8: 500, 14: 800, 20: 500}


def test_a_ramp_grows_with_the_age_and_then_stays() -> None:
    leak = {"memory": {"start": "100Mi", "end": "300Mi", "over": "2h"}}
    seen = [used(leak, NOON + timedelta(hours=hours)).memory_bytes // MI for hours in (0, 1, 2, 9)]
    assert seen == [100, 200, 300, 300]


def test_a_limit_is_never_exceeded() -> None:
    assert used({"cpu": "9", "memory": "9Gi"}, limits={"cpu": "1", "memory": "1Mi"}) == SimulatedUsage(
        1000, MI
    )


@given(st.floats(0, 1), st.integers(0, 10**7), st.integers())
def test_noise_stays_within_its_part_and_repeats(noise: float, second: int, seed: int) -> None:
    behaviour = load_behaviour({"seed": seed, "pods": [{"usage": {"cpu": {"level": "1", "noise": noise}}}]})
    at = NOON + timedelta(seconds=second)
    amount = pod_usage(pod(), behaviour, at)["main"].cpu_millis
    assert 1000 * (1 - noise) - 1 <= amount <= 1000 * (1 + noise) + 1
    assert amount == pod_usage(pod(), behaviour, at)["main"].cpu_millis


def test_noise_differs_between_seeds_and_moments() -> None:
    def at(seed: int, second: int) -> int:
        behaviour = load_behaviour({"seed": seed, "pods": [{"usage": {"cpu": {"level": "9", "noise": 0.5}}}]})
        return pod_usage(pod(), behaviour, NOON + timedelta(seconds=second))["main"].cpu_millis

    assert len({at(0, 0), at(1, 0), at(0, 15)}) == 3


def test_only_what_runs_uses_anything() -> None:
    waiting = pod()
    waiting["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "ContainerCreating"}}
    assert pod_usage(waiting, load_behaviour({}), NOON) == {}


def test_a_node_uses_what_its_pods_and_its_system_use() -> None:
    node = of_node(load_behaviour({"nodes": [{"usage": {"cpu": "10%", "memory": "1Mi"}}]}), "n", {})
    total = node_usage(
        "n",
        {"cpu": "4", "memory": "8Gi"},
        node,
        [SimulatedUsage(100, 5), SimulatedUsage(1, 6)],
        now=NOON,
        seed=0,
    )
    assert total == SimulatedUsage(501, MI + 11)
