"""A scenario's file → the scenario, or everything that is wrong with it."""

from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from rescheduler.simulator.problems import problems
from rescheduler.simulator.scenario.consistency import contradictions
from rescheduler.simulator.scenario.document import Unreadable, read_document
from rescheduler.simulator.scenario.shape import Scenario

__all__ = ["ScenarioError", "load_scenario", "parse_scenario", "read_scenario"]

_WHOLE = "the file"


class ScenarioError(ValueError):
    """The scenario can't be used; every mistake is in `problems`, each with its path."""

    def __init__(self, source: str, problems: Iterable[str]) -> None:
        self.source = source
        self.problems = tuple(problems)
        count = len(self.problems)
        head = f"{source}: {count} {'error' if count == 1 else 'errors'}"
        super().__init__("\n".join([head, *(f"  {problem}" for problem in self.problems)]))


def read_scenario(path: Path) -> Scenario:
    """Raises `ScenarioError`, also for a file that can't be read."""
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(str(path), [f"{_WHOLE}: {why}: a file that can be read is needed"]) from error
    return parse_scenario(content, source=str(path))


def parse_scenario(content: bytes, *, source: str) -> Scenario:
    try:
        data = read_document(content)
    except Unreadable as error:
        raise ScenarioError(source, [str(error)]) from error
    return load_scenario(data, source=source)


def load_scenario(data: object, *, source: str = "scenario") -> Scenario:
    """From plain data, as YAML gives it."""
    try:
        scenario = Scenario.model_validate({} if data is None else data)
    except ValidationError as invalid:
        raise ScenarioError(source, problems(invalid, data, Scenario, whole=_WHOLE)) from None
    if found := list(contradictions(scenario)):
        raise ScenarioError(source, found)
    return scenario
