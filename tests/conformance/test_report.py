"""The report in the documentation is made from the record and the simulator, and is current."""

from pathlib import Path

from tests.conformance.report import report
from tests.conformance.scenario import all_scenarios
from tests.conformance.servers import Outcome, all_on_simulator

_PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"


def test_the_page_is_current() -> None:
    chosen = all_scenarios()
    text = report(chosen, all_on_simulator(chosen))
    assert _PAGE.read_text() == text, f"python -m tests.conformance report --write {_PAGE.name}"


def test_a_scenario_that_differs_is_marked() -> None:
    chosen = all_scenarios()[:1]
    crashed: dict[str, Outcome] = {chosen[0].id: ValueError("crashed")}
    assert "**differs**" in report(chosen, crashed)
