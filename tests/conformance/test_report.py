"""The report in the documentation is made from record and simulator; `make check` keeps it current."""

from tests.conformance.report import report
from tests.conformance.scenario import all_scenarios
from tests.conformance.servers import Outcome


def test_a_scenario_that_differs_is_marked() -> None:
    chosen = all_scenarios()[:1]
    crashed: dict[str, Outcome] = {chosen[0].id: ValueError("crashed")}
    assert "**differs**" in report(chosen, crashed)
