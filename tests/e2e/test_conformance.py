"""The record of the conformance suite is still true of a real API server.

All scenarios are played first, side by side where they can be; then each is a test of its own.
"""

import asyncio

import pytest

from tests.conformance import recorded
from tests.conformance.scenario import Scenario, all_scenarios
from tests.conformance.servers import API_ONLY, Outcome, all_on_real_server
from tests.testbed.control_plane import ControlPlane


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    with ControlPlane(tmp_path_factory.mktemp("control-plane"), API_ONLY) as cluster:
        return asyncio.run(all_on_real_server(all_scenarios(), cluster))


@pytest.mark.parametrize("found", [pytest.param(each, id=each.id) for each in all_scenarios()])
def test_real_server_does_what_was_recorded(found: Scenario, outcomes: dict[str, Outcome]) -> None:
    seen = outcomes[found.id]
    if isinstance(seen, Exception):
        raise seen
    known = recorded.load(found.group).get(found.id)
    assert known is not None, f"{found.id} was never recorded: make conformance-record"
    assert seen == known, "\n".join([found.sentence, *recorded.difference(known, seen)])
