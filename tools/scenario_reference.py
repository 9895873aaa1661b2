"""Generate the reference tables in docs/scenarios.md from the scenario's models.

python -m tools.scenario_reference --write docs/scenarios.md
python -m tools.scenario_reference --check docs/scenarios.md    # exit code 1 if they are stale
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

from kubesim.behaviour import behaviour_rules
from kubesim.scenario import scenario_events, scenario_objects, scenario_values
from kubesim.scenario.scenario_file import Scenario
from kubevalues.duration import short_duration
from tools.generated_section import GeneratedSection

__all__ = ["main", "reference", "with_reference"]


_TABLES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("The file", Scenario),
    ("Entries of `nodes`", scenario_objects.ScenarioNode),
    ("Entries of `pools`", scenario_objects.ScenarioNodePool),
    ("Entries of `taints`", scenario_objects.ScenarioTaint),
    ("Entries of `workloads`", scenario_objects.ScenarioWorkload),
    ("`budget`", scenario_objects.ScenarioBudget),
    ("Entries of `claims`", scenario_objects.ScenarioClaim),
    ("Entries of `events`", scenario_events.ScenarioEvent),
    ("`label`, `annotate`", scenario_events.MetadataChange),
    ("`patch`", scenario_events.ObjectChange),
    ("`scale`", scenario_events.Scaling),
    ("`rollOut`", scenario_events.RollOut),
    ("`delete`, `evict`", scenario_events.ObjectChoice),
    ("Entries of `extenders`", scenario_values.ScenarioExtender),
    ("Entries of `faults`; `fault` of an event has no `at`", scenario_values.ScheduledFault),
    ("`behaviour`", behaviour_rules.Behaviour),
    ("Entries of `behaviour.pods`", behaviour_rules.PodRule),
    ("`match` of pods", behaviour_rules.PodMatch),
    ("`readiness`, if not just a duration or `never`", behaviour_rules.ReadinessRule),
    ("`run`, `init`", behaviour_rules.ContainerRun),
    ("`blocked`, if not just a reason", behaviour_rules.BlockedRule),
    ("`evicted`", behaviour_rules.EvictionRule),
    ("Entries of `behaviour.nodes`", behaviour_rules.NodeRule),
    ("`match` of nodes", behaviour_rules.NodeMatch),
    ("Entries of `dead`", behaviour_rules.NodeOutage),
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
    """Return the docstring below each field, including base models; Python does not keep it."""
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
    return "" if _is_empty(value) else f"`{_shown(value)}`"


def _is_empty(value: Any) -> bool:
    return value is None or value == "" or value in ((), {}) or isinstance(value, BaseModel)


def _shown(value: Any) -> str:
    if isinstance(value, timedelta):
        return short_duration(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


_PART = GeneratedSection(reference)
with_reference = _PART.renewed
main = _PART.main


if __name__ == "__main__":
    sys.exit(main())
