"""YAML (or JSON, which is YAML too) → plain data, without YAML 1.1's surprises.

`on:` is a word here and not a yes, `12:30` no number of minutes, a date a text; and a key that stands twice
in a map, of which one would silently be lost, is refused.
"""

import re
from collections.abc import Hashable
from typing import Any

import yaml

__all__ = ["Unreadable", "read_document"]

LARGEST_BYTES = 4 * 1024 * 1024

_NULL, _BOOL, _INT, _FLOAT = (f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float"))
_PLAIN_VALUES = (
    (_NULL, r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    (_BOOL, r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (_INT, r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789")),
    (_FLOAT, r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
)


class Unreadable(ValueError):  # noqa: N818 - says what the file is
    """The text has no structure that one could look into; the message says where and why."""


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - PyYAML's own way

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                line = key.start_mark.line + 1
                raise Unreadable(f"line {line}: {key.value!r} is given twice: only once is allowed")
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


for _tag, _pattern, _first_letters in _PLAIN_VALUES:
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), _first_letters)


def read_document(content: bytes) -> Any:
    """Raises `Unreadable`."""
    if len(content) > LARGEST_BYTES:
        raise Unreadable(f"{len(content)} bytes: at most {LARGEST_BYTES} are allowed")
    try:
        return yaml.load(content, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark else ""
        raise Unreadable(
            f"{where}not YAML: {' '.join(str(error.problem or error.context).split())}"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Unreadable(f"not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise Unreadable("nested too deep") from None
