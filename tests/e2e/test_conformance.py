"""The record of the conformance suite is still true of a real API server.

All scenarios are played first, side by side where they can be; then each is a test of its own.
"""

import asyncio

import pytest

from tests.conformance import recorded
from tests.conformance.scenario import Scenario, all_scenarios
from tests.conformance.servers import API_ONLY, Outcome, all_on_real_server
from tests.testbed.control_plane import ControlPlane


def _scenarios(*, living: bool) -> list[Scenario]:
    return [found for found in all_scenarios() if (found.cast is not None) == living]


def _tests(*, living: bool) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "found", [pytest.param(each, id=each.id) for each in _scenarios(living=living)]
    )


@pytest.fixture(scope="module")
def of_the_server(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    with ControlPlane(tmp_path_factory.mktemp("control-plane"), API_ONLY) as cluster:
        return asyncio.run(all_on_real_server(_scenarios(living=False), cluster))


@pytest.fixture(scope="module")
def of_the_cluster(control_plane: ControlPlane) -> dict[str, Outcome]:
    return asyncio.run(all_on_real_server(_scenarios(living=True), control_plane))


@_tests(living=False)
def test_real_server_does_what_was_recorded(found: Scenario, of_the_server: dict[str, Outcome]) -> None:
    _as_recorded(found, of_the_server)


@_tests(living=True)
def test_real_cluster_does_what_was_recorded(found: Scenario, of_the_cluster: dict[str, Outcome]) -> None:
    _as_recorded(found, of_the_cluster)


def _as_recorded(found: Scenario, outcomes: dict[str, Outcome]) -> None:
    seen = outcomes[found.id]
    if isinstance(seen, Exception):
        raise seen
    known = recorded.load(found.group).get(found.id)
    assert known is not None, f"{found.id} was never recorded: make conformance-record"
    assert seen == known, "\n".join([found.sentence, *recorded.difference(known, seen)])
