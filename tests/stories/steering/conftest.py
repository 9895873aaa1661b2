"""Replacements are steered by the webhook or by the extender, each on either kind of cluster."""

from typing import Any

import pytest

from tests.stories.cluster_kinds import CONTROL_PLANE, kind_of
from tests.stories.fixtures import Cluster, Eventually
from tests.stories.steering.extender_on_control_plane import (  # noqa: F401
    address,
    ask_on_control_plane,
    extender_control_plane,
    extender_on_control_plane,
)
from tests.stories.steering.simulated_steering import (  # noqa: F401
    ask_on_simulator,
    extender_on_simulator,
    home,
    reachable_extender,
    webhook_on_simulator,
)
from tests.stories.steering.steered import Extended, MakeSteered, Serving, Steered
from tests.stories.steering.webhook_on_control_plane import (  # noqa: F401
    ours,
    start_webhook,
    unregistered,
    webhook_control_plane,
    webhook_on_control_plane,
)
from tests.testbed import ControlPlane

WEBHOOK, EXTENDER = "webhook", "extender"


def pytest_itemcollected(item: pytest.Item) -> None:
    """The same stories again, on another control plane: not every day."""
    assert isinstance(item, pytest.Function)
    if kind_of(item) == CONTROL_PLANE and item.callspec.params.get("steering") == EXTENDER:
        item.add_marker(pytest.mark.full)


@pytest.fixture(params=[WEBHOOK, EXTENDER])
def steering(request: pytest.FixtureRequest) -> str:
    """What steers replacements. Modules that are about one of them have a fixture of the same name."""
    return str(request.param)


@pytest.fixture
def control_plane(request: pytest.FixtureRequest, steering: str) -> ControlPlane:
    return request.getfixturevalue(f"{steering}_control_plane")


@pytest.fixture
def serving(request: pytest.FixtureRequest, cluster_kind: str, steering: str) -> Serving:
    return request.getfixturevalue(f"{steering}_on_{cluster_kind}")


@pytest.fixture
def make_steered(
    request: pytest.FixtureRequest,
    cluster: Cluster,
    cluster_kind: str,
    steering: str,
    serving: Serving,
    eventually: Eventually,
) -> MakeSteered:
    """await make_steered(nodes=3): a sandbox with so many nodes, on which pods are ready at once."""
    more: list[Any] = [request.getfixturevalue(f"ask_on_{cluster_kind}")] if steering == EXTENDER else []
    made = Extended if steering == EXTENDER else Steered

    async def make(nodes: int = 3) -> Steered:
        return made(await cluster.sandbox(nodes), serving, eventually, *more)

    return make
