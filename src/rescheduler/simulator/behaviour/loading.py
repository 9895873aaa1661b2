"""Behaviour from a plain dict, as YAML gives it: the whole of it, or everything that is wrong with it."""

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from rescheduler.simulator.behaviour.vocabulary import Behaviour

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
        raise BehaviourError(_told(error, content) for error in invalid.errors()) from None


def _told(error: Any, content: object) -> str:
    steps = _steps(error["loc"], content)
    message = error["msg"].removeprefix("Value error, ")
    match error["type"]:
        case "extra_forbidden":
            message = "unknown field"
        case "missing":
            return f"{_path(steps)}: is missing"
        case "model_type" | "dict_type":
            message = "must be a mapping"
        case _:
            message = message.replace("Input should be", "must be")
    told = f"{error['input']!r}"
    return f"{_path(steps)}: {message}" if message.startswith(told) else f"{_path(steps)}: {told}: {message}"


def _steps(location: tuple[str | int, ...], content: object) -> list[str | int]:
    """The path as it is in the file: without the steps that only the parser knows (short forms, shapes)."""
    steps: list[str | int] = []
    for place, step in enumerate(location, start=1):
        if isinstance(content, dict) and (
            step in content or (place == len(location) and isinstance(step, str))
        ):
            content = content.get(step)
        elif isinstance(content, list | tuple) and isinstance(step, int):
            content = content[step]
        else:
            continue
        steps.append(step)
    return steps


def _path(steps: Iterable[str | int]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".") or "behaviour"
