"""docs/scenarios.md matches the code."""

import re
from pathlib import Path

import pytest

from kubesim.running_cluster import EPOCH
from kubesim.scenario import initial_objects, parse_scenario
from tests.unit.kubesim.scenario.conftest import EXAMPLE_SCENARIOS
from tools.scenario_reference import main, reference, with_reference

DOCUMENT = Path(__file__).parents[4] / "docs" / "scenarios.md"


def test_the_reference_is_up_to_date():
    assert main(["--check", str(DOCUMENT)]) == 0, "run `make generate`"


def test_a_reference_that_is_out_of_date_is_noticed(tmp_path):
    stale = tmp_path / "scenarios.md"
    stale.write_text(DOCUMENT.read_text().replace("| `seed` |", "| `sead` |"))
    assert main(["--check", str(stale)]) == 1
    assert main(["--write", str(stale)]) == 0
    assert stale.read_text() == DOCUMENT.read_text()


def test_a_document_without_a_place_for_it_is_refused():
    with pytest.raises(ValueError, match="markers"):
        with_reference("no markers here")


def test_fields_are_shown_as_they_are_written_with_what_they_mean():
    assert "| `rollOut` |  |  |" in reference()
    assert "| `settle` | `10m` | How long the cluster has been running at the start. |" in reference()
    assert "| `name` | required |" in reference()


def test_the_example_can_be_used():
    (example,) = re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    objects = initial_objects(parse_scenario(example.encode(), source="example"), EPOCH)
    assert sum(item["kind"] == "Pod" for item in objects) == 6


def test_every_example_scenario_is_listed():
    listed = set(re.findall(r"\(\.\./scenarios/(.*?)\.yaml\)", DOCUMENT.read_text()))
    assert listed == {path.stem for path in EXAMPLE_SCENARIOS.glob("*.yaml")}
