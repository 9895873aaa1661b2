"""Read and validate scenario files, and report everything that is wrong with them.

YAML is read without the surprises of YAML 1.1: `on` is text, `12:30` and dates are text, and duplicate keys
are rejected.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError

from kubesim.behaviour import Behaviour
from kubesim.behaviour.behaviour_loading import problems
from kubesim.behaviour.usage_patterns import NOTHING, Duration
from kubesim.scenario.scenario_events import ScenarioEvent
from kubesim.scenario.scenario_objects import ScenarioNode, ScenarioNodePool, ScenarioWorkload
from kubesim.scenario.scenario_values import RawObject, ScenarioExtender, ScenarioModel, ScheduledFault

__all__ = [
    "Scenario",
    "ScenarioError",
    "UnreadableScenario",
    "contradictions",
    "load_scenario",
    "lopsided_shop",
    "parse_scenario",
    "read_document",
    "read_scenario",
]


class Scenario(ScenarioModel):
    """A cluster and what happens to it. The same seed gives the same history."""

    name: str = ""
    description: str = ""
    seed: int = Field(default=0, ge=0)
    settle: Duration = timedelta(minutes=10)
    """How long the cluster has been running at the start."""
    nodes: tuple[ScenarioNode, ...] = ()
    pools: tuple[ScenarioNodePool, ...] = ()
    workloads: tuple[ScenarioWorkload, ...] = ()
    objects: tuple[RawObject, ...] = ()
    """Any other objects; they are created before the workloads."""
    behaviour: Behaviour = Behaviour()
    """How nodes and pods behave: start-up, failures, usage, outages. Times count from the start."""
    extenders: tuple[ScenarioExtender, ...] = ()
    """Scheduler extenders, called over HTTP; only in real time."""
    faults: tuple[ScheduledFault, ...] = ()
    """Faults of the API server."""
    events: tuple[ScenarioEvent, ...] = ()
    """Events and their times."""

    def machines(self) -> list[ScenarioNode]:
        return [*self.nodes, *(machine for pool in self.pools for machine in pool.machines())]

    def seeded_behaviour(self) -> Behaviour:
        """Return the behaviour with the scenario's seed, unless it has its own."""
        if "seed" in self.behaviour.model_fields_set:
            return self.behaviour
        return self.behaviour.model_copy(update={"seed": self.seed})


LARGEST_BYTES = 4 * 1024 * 1024

_NULL, _BOOL, _INT, _FLOAT = (f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float"))
_PLAIN_VALUES = (
    (_NULL, r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    (_BOOL, r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (_INT, r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789")),
    (_FLOAT, r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
)


class UnreadableScenario(ValueError):  # noqa: N818 - says what the file is
    """The text has no readable structure; the message says where and why."""


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - PyYAML's own way

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                line = key.start_mark.line + 1
                raise UnreadableScenario(f"line {line}: {key.value!r} is given twice")
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


for _tag, _pattern, _first_letters in _PLAIN_VALUES:
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), _first_letters)


def read_document(content: bytes) -> Any:
    """Parse YAML into plain data; raise `UnreadableScenario` if that fails."""
    if len(content) > LARGEST_BYTES:
        raise UnreadableScenario(f"{len(content)} bytes: at most {LARGEST_BYTES} are allowed")
    try:
        return yaml.load(content, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark else ""
        raise UnreadableScenario(
            f"{where}not YAML: {' '.join(str(error.problem or error.context).split())}"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UnreadableScenario(f"not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise UnreadableScenario("nested too deeply") from None


def contradictions(scenario: Scenario) -> Iterator[str]:
    """Yield contradictions between parts of a scenario, each with its path."""
    yield from _duplicates(scenario)
    nodes = {machine.name for machine in scenario.machines()}
    nodes |= {item["metadata"]["name"] for item in scenario.objects if item["kind"] == "Node"}
    for place, workload in enumerate(scenario.workloads):
        path = f"workloads[{place}].on"
        for name in dict.fromkeys(workload.on):
            if name not in nodes:
                yield f"{path}: {name!r}: there is no such node; there are {_some(sorted(nodes))}"
        if workload.on and workload.kind != "Pod" and scenario.settle == NOTHING:
            yield f"{path}: needs a `settle` longer than 0s: otherwise there are no pods to place"
    for place, event in enumerate(scenario.events):
        action, given = event.action
        if action in ("cordon", "uncordon", "kill", "revive"):
            for name in given:
                if name not in nodes and not set(name) & set("*?["):
                    yield f"events[{place}].{action}: {name!r}: there is no such node"


def _duplicates(scenario: Scenario) -> Iterator[str]:
    names = Counter(machine.name for machine in scenario.machines())
    for name, count in names.items():
        if count > 1:
            yield f"nodes, pools: {name!r}: {count} nodes of this name"
    workloads = Counter((each.kind, each.namespace, each.name) for each in scenario.workloads)
    for (kind, namespace, name), count in workloads.items():
        if count > 1:
            yield f"workloads: {kind} {namespace}/{name}: given {count} times"


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:8]) or "none"
    return f"{shown}, …" if len(names) > 8 else shown


_WHOLE = "the file"


class ScenarioError(ValueError):
    """The scenario can't be used; `problems` has every mistake with its path."""

    def __init__(self, source: str, problems: Iterable[str]) -> None:
        self.source = source
        self.problems = tuple(problems)
        count = len(self.problems)
        head = f"{source}: {count} {'error' if count == 1 else 'errors'}"
        super().__init__("\n".join([head, *(f"  {problem}" for problem in self.problems)]))


def read_scenario(path: Path) -> Scenario:
    """Read a scenario file; raise `ScenarioError` if it is invalid or can't be read."""
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(str(path), [f"{_WHOLE}: {why}"]) from error
    return parse_scenario(content, source=str(path))


def parse_scenario(content: bytes, *, source: str) -> Scenario:
    try:
        data = read_document(content)
    except UnreadableScenario as error:
        raise ScenarioError(source, [str(error)]) from error
    return load_scenario(data, source=source)


def load_scenario(data: object, *, source: str = "scenario") -> Scenario:
    """Read a scenario from plain data."""
    try:
        scenario = Scenario.model_validate({} if data is None else data)
    except ValidationError as invalid:
        raise ScenarioError(source, problems(invalid, data, Scenario, whole=_WHOLE)) from None
    if found := list(contradictions(scenario)):
        raise ScenarioError(source, found)
    return scenario


def lopsided_shop() -> Scenario:
    """Return the built-in scenario: six nodes, two overloaded and one idle, with a shop's workloads."""
    name = "lopsided-shop.yaml"
    return parse_scenario(files(__package__).joinpath(name).read_bytes(), source=name)
