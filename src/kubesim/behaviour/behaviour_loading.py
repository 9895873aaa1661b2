"""Read behaviour rules from plain data, and report all mistakes with their place and the allowed values."""

from collections.abc import Iterable, Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from kubesim.behaviour.behaviour_rules import Behaviour

__all__ = ["BehaviourError", "load_behaviour", "path_text", "problems"]

Step = str | int


def problems(invalid: ValidationError, content: object, model: type[BaseModel], *, whole: str) -> list[str]:
    """Return a line per mistake: `pods[2].run.exitCode: 300: must be …`; `whole` names the file."""
    return [_error_text(error, content, model, whole) for error in invalid.errors()]


def path_text(steps: Iterable[Step], whole: str) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".") or whole


def _error_text(error: Any, content: object, model: type[BaseModel], whole: str) -> str:
    path = path_text(_steps(error["loc"], content), whole)
    message = error["msg"].removeprefix("Value error, ")
    match error["type"]:
        case "extra_forbidden":
            message = f"unknown field; there are {', '.join(_fields_beside(model, error['loc']))}"
            return f"{path}: {message}"
        case "missing":
            return f"{path}: is missing"
        case "model_type" | "dict_type":
            message = "must be a mapping"
        case "tuple_type":
            message = "must be a list"
        case _:
            message = message.replace("Input should be", "must be")
    shown = f"{error['input']!r}"
    shown = shown if len(shown) <= 120 else f"{shown[:119]}…"
    return f"{path}: {message}" if message.startswith(shown) else f"{path}: {shown}: {message}"


def _steps(location: tuple[Step, ...], content: object) -> list[Step]:
    """Return the path as it is in the file, without steps that only the parser knows."""
    steps: list[Step] = []
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


def _fields_beside(model: type[BaseModel], location: tuple[Step, ...]) -> list[str]:
    """Return the fields that are allowed at the last step of this path."""
    models = [model]
    for step in location[:-1]:
        inner = [found for each in models for found in _models_at(each, step)]
        models = inner or models  # a step that only the parser knows leads nowhere
    return sorted({field.alias or name for each in models for name, field in each.model_fields.items()})


def _models_at(model: type[BaseModel], step: Step) -> Iterator[type[BaseModel]]:
    for name, field in model.model_fields.items():
        if step in (name, field.alias):
            yield from _models_in(field.annotation)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


class BehaviourError(ValueError):
    """Invalid behaviour; `problems` has every mistake with its path: `pods[2].run.exitCode: 300: …`."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def load_behaviour(content: object) -> Behaviour:
    """Read behaviour rules from plain data; raise `BehaviourError` if they are invalid."""
    try:
        return Behaviour.model_validate({} if content is None else content)
    except ValidationError as invalid:
        raise BehaviourError(problems(invalid, content, Behaviour, whole="behaviour")) from None
