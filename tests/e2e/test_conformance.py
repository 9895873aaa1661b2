"""The recorded answers of the conformance suite still match a real API server.

All scenarios are played first, side by side where they can be; then each is a test of its own.
"""

import asyncio

import pytest

from tests.conformance import recorded
from tests.conformance.scenario import Scenario, all_scenarios
from tests.conformance.servers import API_ONLY, Outcome, all_on_real_server
from tests.testbed.control_plane import ControlPlane


def _scenarios(*, controllers: bool) -> list[Scenario]:
    """Return the scenarios that need the controllers, the scheduler and kubelets, or those that don't."""
    return [found for found in all_scenarios() if (found.components is not None) == controllers]


def _tests(*, controllers: bool) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "found", [pytest.param(each, id=each.id) for each in _scenarios(controllers=controllers)]
    )


@pytest.fixture(scope="module")
def of_the_server(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    with ControlPlane(tmp_path_factory.mktemp("control-plane"), API_ONLY) as cluster:
        return asyncio.run(all_on_real_server(_scenarios(controllers=False), cluster))


@pytest.fixture(scope="module")
def of_the_cluster(control_plane: ControlPlane) -> dict[str, Outcome]:
    return asyncio.run(all_on_real_server(_scenarios(controllers=True), control_plane))


@_tests(controllers=False)
def test_real_server_does_what_was_recorded(found: Scenario, of_the_server: dict[str, Outcome]) -> None:
    _as_recorded(found, of_the_server)


@_tests(controllers=True)
def test_real_cluster_does_what_was_recorded(found: Scenario, of_the_cluster: dict[str, Outcome]) -> None:
    _as_recorded(found, of_the_cluster)


def _as_recorded(found: Scenario, outcomes: dict[str, Outcome]) -> None:
    seen = outcomes[found.id]
    if isinstance(seen, Exception):
        raise seen
    known = recorded.load(found.group).get(found.id)
    assert known is not None, f"{found.id} was never recorded: make conformance-record"
    assert seen == known, "\n".join([found.sentence, *recorded.difference(known, seen)])
