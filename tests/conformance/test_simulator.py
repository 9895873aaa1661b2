"""The simulated API server does what the real one was seen to do."""

import pytest

from tests.conformance import recorded
from tests.conformance.scenario import Scenario, all_scenarios
from tests.conformance.servers import on_simulator


@pytest.mark.parametrize("found", [pytest.param(each, id=each.id) for each in all_scenarios()])
def test_simulator_does_what_the_real_server_does(found: Scenario) -> None:
    seen = recorded.load(found.group).get(found.id)
    assert seen is not None, f"{found.id} was never seen on a real server: make conformance-record"
    notes = on_simulator(found)
    assert notes == seen, "\n".join([found.sentence, *recorded.difference(seen, notes)])
