"""Reads off a configuration class what its settings are called, may be, and mean.

Each setting is written down once, in `policy`: a field with its type, its default and a docstring below it.
Error messages, `config show` and the reference table all come from here.
"""

import ast
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from rescheduler.config.values import Rule

__all__ = ["BLOCK", "Setting", "Shape", "settings", "shape_at", "spelled"]

_SPELLED_UPPER = {"ttl": "TTL"}


def spelled(python_name: str) -> str:
    """As the file has it: `migration_ttl` is `migrationTTL`, `from_` is `from`."""
    first, *rest = python_name.rstrip("_").split("_")
    return first + "".join(_SPELLED_UPPER.get(word, word.capitalize()) for word in rest)


BLOCK: Any = {"extra": "forbid", "alias_generator": spelled}
"""For `__pydantic_config__` of every class whose fields stand in the file."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What may stand at one place of the file: a single value, a list, a map or a block of settings."""

    rule: Rule | None = None
    entries: "Shape | None" = None
    """Of a list or a map."""
    keys: "Shape | None" = None
    """Of a map."""
    block: type | None = None

    @property
    def type_name(self) -> str:
        if self.rule:
            return self.rule.type_name
        if self.entries and self.keys:
            return f"map of {self.keys.type_name} to {self.entries.type_name}"
        return f"list of {self.entries.type_name}" if self.entries else "block"

    @property
    def allowed(self) -> str:
        if self.rule:
            return self.rule.allowed
        if self.entries and self.keys:
            return f"a map; each key is {self.keys.allowed}; each value is {self.entries.allowed}"
        if self.entries:
            return f"a list; each entry is {self.entries.allowed}"
        assert self.block is not None
        return f"a block with {', '.join(setting.name for setting in settings(self.block))}"

    def show(self, value: Any) -> Any:
        """As it stands in the file."""
        if value is None:
            return None
        if self.rule:
            return self.rule.show(value)
        if self.entries and self.keys:
            return {self.keys.show(key): self.entries.show(entry) for key, entry in value.items()}
        if self.entries:
            return [self.entries.show(entry) for entry in value]
        assert self.block is not None
        return {s.name: s.shape.show(getattr(value, s.python_name)) for s in settings(self.block)}


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    """As the file has it."""
    python_name: str
    shape: Shape
    meaning: str
    required: bool
    default: Any
    """None if required, too."""


@cache
def settings(block: type) -> tuple[Setting, ...]:
    """In the order in which they are written down."""
    hints = get_type_hints(block, include_extras=True)
    meanings = _docstrings(block)
    return tuple(
        Setting(
            name=spelled(field.name),
            python_name=field.name,
            shape=_shape(hints[field.name]),
            meaning=meanings.get(field.name, ""),
            required=field.default is MISSING and field.default_factory is MISSING,
            default=_default(field),
        )
        for field in fields(block)
    )


def shape_at(block: type, path: tuple[str | int, ...]) -> Shape:
    """What may stand at a path that exists in the shape, such as `("windows", 0, "days")`."""
    shape = Shape(block=block)
    for step in path:
        if shape.block:
            shape = next(s.shape for s in settings(shape.block) if s.name == step)
        elif shape.entries:
            shape = shape.entries
    return shape


def _default(field: Any) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return None if field.default is MISSING else field.default


def _shape(annotation: Any) -> Shape:
    if get_origin(annotation) is Annotated:
        rule = next((extra for extra in get_args(annotation)[1:] if isinstance(extra, Rule)), None)
        return Shape(rule=rule) if rule else _shape(get_args(annotation)[0])
    if is_dataclass(annotation):
        assert isinstance(annotation, type)
        return Shape(block=annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is tuple:
        return Shape(entries=_shape(arguments[0]))
    assert origin is Mapping or issubclass(origin, Mapping), f"{annotation} is no part of a configuration"
    return Shape(keys=_shape(arguments[0]), entries=_shape(arguments[1]))


def _docstrings(block: type) -> dict[str, str]:
    """The text below each field, on one line."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(block))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(meaning))):
                found[name] = " ".join(meaning.split())
    return found
