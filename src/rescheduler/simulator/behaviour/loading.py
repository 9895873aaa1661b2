"""Behaviour from a plain dict, as YAML gives it: the whole of it, or everything that is wrong with it."""

from collections.abc import Iterable

from pydantic import ValidationError

from rescheduler.simulator.behaviour.vocabulary import Behaviour
from rescheduler.simulator.problems import problems

__all__ = ["BehaviourError", "load_behaviour"]


class BehaviourError(ValueError):
    """Every mistake, each with its path: `pods[2].run.exitCode: 300: …`."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def load_behaviour(content: object) -> Behaviour:
    """Raises `BehaviourError`."""
    try:
        return Behaviour.model_validate({} if content is None else content)
    except ValidationError as invalid:
        raise BehaviourError(problems(invalid, content, Behaviour, whole="behaviour")) from None
