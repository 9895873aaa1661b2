"""Parse YAML or JSON into plain data, with the line of every value.

Plain scalars have the meaning that Kubernetes tools give them, not that of YAML 1.1: `22:00` and dates are
strings. Input that those tools silently drop is an error: duplicate keys and a second document. Size,
depth and the growth by aliases are limited, because a file can be malicious.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from rescheduler.config.config_validation import ConfigFault, FaultText, FieldPath

__all__ = ["MAX_CONFIG_BYTES", "ConfigDocument", "UnreadableConfig", "read_document"]

MAX_CONFIG_BYTES = 256 * 1024
_MAX_DEPTH = 50
_MAX_VALUES = 50_000


class UnreadableConfig(Exception):  # noqa: N818 - it becomes a ConfigurationError with the file's name
    """The file can't be parsed."""

    def __init__(self, *faults: ConfigFault) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class ConfigDocument:
    data: Any
    """A dict with strings as keys, a list, str, int, float, bool or None."""
    lines: dict[FieldPath, int]
    """The line of each path, counted from 1."""

    def line(self, path: FieldPath) -> int | None:
        """Return the line of the value at that path, or of the nearest value around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)


def read_document(content: bytes) -> ConfigDocument:
    """Read a YAML or JSON document; raise `UnreadableConfig`."""
    if len(content) > MAX_CONFIG_BYTES:
        raise UnreadableConfig(
            ConfigFault((), FaultText("too large"), f"at most {MAX_CONFIG_BYTES} bytes are allowed")
        )
    documents = _composed(_decoded(content))
    if len(documents) > 1:
        second = documents[1].start_mark.line + 1
        raise UnreadableConfig(
            ConfigFault((), FaultText(f"{len(documents)} documents"), "only one is allowed", second)
        )
    reader = _Reader()
    data = reader.value(documents[0], (), 0) if documents else None
    if reader.faults:
        raise UnreadableConfig(*reader.faults)
    return ConfigDocument(data, reader.lines)


# --- bytes → nodes


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UnreadableConfig(
            ConfigFault((), FaultText("not text"), f"UTF-8 is required (byte {error.start + 1})", line)
        ) from None


class _Loader(yaml.SafeLoader):
    """A loader that only composes nodes; `_PLAIN` decides what a scalar means."""


_UNQUOTED = "plain"
_Loader.yaml_implicit_resolvers = {None: [(_UNQUOTED, re.compile(""))]}


def _composed(text: str) -> list[yaml.Node]:
    try:
        found: Iterator[yaml.Node] = yaml.compose_all(_without_tabs(text), Loader=_Loader)
        return [node for node in found if not (node.tag == _UNQUOTED and node.value == "")]
    except yaml.MarkedYAMLError as error:
        raise UnreadableConfig(_syntax_fault(error)) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # A character that YAML doesn't allow, or the escape of one that doesn't exist.
        raise UnreadableConfig(ConfigFault((), FaultText("not YAML or JSON"), _one_line(error))) from None
    except RecursionError:
        raise UnreadableConfig(_too_deep(())) from None


_QUOTED_OR_TAB = re.compile(r'"(?:[^"\\]|\\.)*"|\t', re.DOTALL)


def _without_tabs(text: str) -> str:
    """Replace tabs between the tokens of JSON by spaces, because JSON allows them there and YAML doesn't."""
    if not text.lstrip().startswith("{"):
        return text
    return _QUOTED_OR_TAB.sub(lambda found: " " if found[0] == "\t" else found[0], text)


def _syntax_fault(error: yaml.MarkedYAMLError) -> ConfigFault:
    mark = error.problem_mark or error.context_mark
    column = f" at column {mark.column + 1}" if mark else ""
    problem = _one_line(error.problem or error.context or "malformed")
    return ConfigFault((), FaultText(f"not YAML or JSON{column}"), problem, mark.line + 1 if mark else None)


def _one_line(what: object) -> str:
    return " ".join(str(what).split())


def _too_deep(path: FieldPath) -> ConfigFault:
    return ConfigFault(path[:4], FaultText("nested too deeply"), f"at most {_MAX_DEPTH} levels are allowed")


# --- nodes → data

_DEFAULT_TAGS = {
    f"tag:yaml.org,2002:{name}" for name in ("map", "seq", "str", "int", "float", "bool", "null")
}
_TEXT_TAG = "tag:yaml.org,2002:str"

_PLAIN = (
    (re.compile(r"|~|null|Null|NULL"), lambda _text: None),
    (re.compile(r"true|True|TRUE|yes|Yes|YES|on|On|ON"), lambda _text: True),
    (re.compile(r"false|False|FALSE|no|No|NO|off|Off|OFF"), lambda _text: False),
    (re.compile(r"[-+]?(?:0|[1-9][0-9]{0,999})"), int),
    # A leading zero means octal to some parsers and decimal to others, so such a scalar is a string.
    (re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"), float),
    (re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"), lambda text: float(text.replace(".", ""))),
)


def _scalar(node: yaml.Node) -> Any:
    text: str = node.value
    if node.tag == _TEXT_TAG:
        return _joined(text)
    return next((read(text) for pattern, read in _PLAIN if pattern.fullmatch(text)), text)


def _joined(text: str) -> str:
    """Join pairs of surrogates: JSON writes characters beyond 16 bits as two escapes, which YAML reads as
    two."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


class _Reader:
    """A reader converts nodes to data, and records lines and faults."""

    def __init__(self) -> None:
        self.lines: dict[FieldPath, int] = {}
        self.faults: list[ConfigFault] = []
        self._values = 0

    def value(self, node: yaml.Node, path: FieldPath, depth: int) -> Any:
        self._values += 1
        if depth > _MAX_DEPTH:
            raise UnreadableConfig(_too_deep(path))
        if self._values > _MAX_VALUES:
            # A few aliases of aliases can stand for billions of values.
            raise UnreadableConfig(
                ConfigFault((), FaultText("too many values"), f"at most {_MAX_VALUES} are allowed")
            )
        self.lines.setdefault(path, node.start_mark.line + 1)
        if node.tag not in _DEFAULT_TAGS and node.tag != _UNQUOTED:
            self._refuse(node, path, f"the tag {node.tag}", "only plain values are allowed")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(entry, (*path, index), depth + 1) for index, entry in enumerate(node.value)]
        return _scalar(node)

    def _mapping(self, node: yaml.MappingNode, path: FieldPath, depth: int) -> dict[str, Any]:
        found = self._merged(node, path, depth)
        seen: set[str] = set()
        for key, entry in node.value:
            if _is_merge(key):
                continue
            if not isinstance(key, yaml.ScalarNode):
                self._refuse(key, path, "a list or a map as a key", "a name is required")
            elif key.value in seen:
                self._refuse(key, (*path, key.value), "given twice", "only once is allowed")
            else:
                seen.add(key.value)
                self.lines[*path, key.value] = key.start_mark.line + 1
                found[key.value] = self.value(entry, (*path, key.value), depth + 1)
        return found

    def _merged(self, node: yaml.MappingNode, path: FieldPath, depth: int) -> dict[str, Any]:
        """Return the entries that `<<` merges. The first source has precedence; own keys override all."""
        found: dict[str, Any] = {}
        for key, entry in node.value:
            if _is_merge(key):
                for source in entry.value if isinstance(entry, yaml.SequenceNode) else [entry]:
                    merged = self.value(source, path, depth + 1)
                    if isinstance(merged, dict):
                        found = merged | found
                    else:
                        self._refuse(
                            source,
                            path,
                            "<< merges a value that is not a map",
                            "only a map or a list of maps is allowed",
                        )
        return found

    def _refuse(self, node: yaml.Node, path: FieldPath, what: str, allowed: str) -> None:
        self.faults.append(ConfigFault(path, FaultText(what), allowed, node.start_mark.line + 1))


def _is_merge(key: yaml.Node) -> bool:
    return key.tag == _UNQUOTED and key.value == "<<"
