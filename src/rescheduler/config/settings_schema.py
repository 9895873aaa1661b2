"""Read names, types, allowed values and descriptions of settings from the configuration classes.

Error messages, `config show` and the reference table all use it.
"""

import ast
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from rescheduler.config.setting_rules import SettingRule

__all__ = ["BLOCK_CONFIG", "Setting", "SettingSchema", "schema_at", "setting_name", "settings"]

_ACRONYMS = {"ttl": "TTL"}


def setting_name(python_name: str) -> str:
    """As the file has it: `migration_ttl` is `migrationTTL`, `from_` is `from`."""
    first, *rest = python_name.rstrip("_").split("_")
    return first + "".join(_ACRONYMS.get(word, word.capitalize()) for word in rest)


BLOCK_CONFIG: Any = {"extra": "forbid", "alias_generator": setting_name}
"""For `__pydantic_config__` of every class whose fields stand in the file."""


@dataclass(frozen=True, slots=True)
class SettingSchema:
    """What may stand at one place of the file: a single value, a list, a map or a block of settings."""

    rule: SettingRule | None = None
    entries: "SettingSchema | None" = None
    """Of a list or a map."""
    keys: "SettingSchema | None" = None
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
        return {s.name: s.schema.show(getattr(value, s.python_name)) for s in settings(self.block)}


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    """As the file has it."""
    python_name: str
    schema: SettingSchema
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
            name=setting_name(field.name),
            python_name=field.name,
            schema=_schema_of(hints[field.name]),
            meaning=meanings.get(field.name, ""),
            required=field.default is MISSING and field.default_factory is MISSING,
            default=_default(field),
        )
        for field in fields(block)
    )


def schema_at(block: type, path: tuple[str | int, ...]) -> SettingSchema:
    """What may stand at a path that exists in the schema, such as `("windows", 0, "days")`."""
    schema = SettingSchema(block=block)
    for step in path:
        if schema.block:
            schema = next(s.schema for s in settings(schema.block) if s.name == step)
        elif schema.entries:
            schema = schema.entries
    return schema


def _default(field: Any) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return None if field.default is MISSING else field.default


def _schema_of(annotation: Any) -> SettingSchema:
    if get_origin(annotation) is Annotated:
        rule = next((extra for extra in get_args(annotation)[1:] if isinstance(extra, SettingRule)), None)
        return SettingSchema(rule=rule) if rule else _schema_of(get_args(annotation)[0])
    if is_dataclass(annotation):
        assert isinstance(annotation, type)
        return SettingSchema(block=annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is tuple:
        return SettingSchema(entries=_schema_of(arguments[0]))
    assert origin is Mapping or issubclass(origin, Mapping), f"{annotation} is no part of a configuration"
    return SettingSchema(keys=_schema_of(arguments[0]), entries=_schema_of(arguments[1]))


def _docstrings(block: type) -> dict[str, str]:
    """The text below each field, on one line."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(block))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        match field, below:
            case [ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(meaning)))]:
                found[name] = " ".join(meaning.split())
    return found
