"""The reference tables in docs/scenarios.md, generated from the words themselves.

python -m rescheduler.simulator.scenario.reference --write docs/scenarios.md
python -m rescheduler.simulator.scenario.reference --check docs/scenarios.md    (exit code 1 if stale)
"""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rescheduler.generated_part import GeneratedPart
from rescheduler.model.duration import short_duration
from rescheduler.simulator.behaviour import vocabulary
from rescheduler.simulator.scenario import events, extenders, faults, machines, workloads
from rescheduler.simulator.scenario.shape import Scenario

__all__ = ["main", "reference", "with_reference"]


_TABLES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("The file", Scenario),
    ("Entries of `nodes`", machines.Machine),
    ("Entries of `pools`", machines.Pool),
    ("Entries of `taints`", machines.Taint),
    ("Entries of `workloads`", workloads.Workload),
    ("`budget`", workloads.Budget),
    ("Entries of `claims`", workloads.Claim),
    ("Entries of `events`", events.Event),
    ("`label`, `annotate`", events.Marks),
    ("`patch`", events.Change),
    ("`scale`", events.Scaling),
    ("`rollOut`", events.RollOut),
    ("`delete`, `evict`", events.Choice),
    ("Entries of `extenders`", extenders.ExtenderAt),
    ("Entries of `faults`; `fault` of an event has no `at`", faults.TroubleAt),
    ("`behaviour`", vocabulary.Behaviour),
    ("Entries of `behaviour.pods`", vocabulary.PodRule),
    ("`match` of pods", vocabulary.PodMatch),
    ("`readiness`, if not just a duration or `never`", vocabulary.Readiness),
    ("`run`, `init`", vocabulary.Run),
    ("`blocked`, if not just a reason", vocabulary.Blocked),
    ("`evicted`", vocabulary.Eviction),
    ("Entries of `behaviour.nodes`", vocabulary.NodeRule),
    ("`match` of nodes", vocabulary.NodeMatch),
    ("Entries of `dead`", vocabulary.Outage),
)


def reference() -> str:
    return "\n".join(line for title, model in _TABLES for line in _table(title, model))


def _table(title: str, model: type[BaseModel]) -> Iterator[str]:
    yield f"### {title}"
    yield ""
    if model.__doc__:
        yield _one_line(model.__doc__)
        yield ""
    yield "| field | default | meaning |"
    yield "|---|---|---|"
    notes = _notes(model)
    for name, field in model.model_fields.items():
        meaning = " ".join(filter(None, (notes.get(name, ""), _choices(field.annotation))))
        cells = (f"`{field.alias or name}`", _default(field), meaning)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _notes(model: type[BaseModel]) -> dict[str, str]:
    """The text below each field, also of the models that it is made from; Python itself forgets it."""
    notes: dict[str, str] = {}
    for part in reversed(model.__mro__):
        if not issubclass(part, BaseModel) or part is BaseModel:
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(part))).body
        assert isinstance(definition, ast.ClassDef)
        for field, below in zip(definition.body, definition.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                text = below.value if isinstance(below, ast.Expr) else None
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    notes[field.target.id] = _one_line(text.value)
    return notes


def _choices(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return "One of " + ", ".join(f"`{value}`" for value in get_args(annotation)) + "."
    return next(filter(None, map(_choices, get_args(annotation))), "")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return "" if _says_nothing(value) else f"`{_shown(value)}`"


def _says_nothing(value: Any) -> bool:
    return value is None or value == "" or value in ((), {}) or isinstance(value, BaseModel)


def _shown(value: Any) -> str:
    if isinstance(value, timedelta):
        return short_duration(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


_PART = GeneratedPart(reference)
with_reference = _PART.renewed
main = _PART.main


if __name__ == "__main__":
    sys.exit(main())
