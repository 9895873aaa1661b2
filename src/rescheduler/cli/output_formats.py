"""The option `-o`: output for programs, as in kubectl, with its JSONPath templates.

    {.items[*].metadata.name}
    {range .items[?(@.status.phase=="Failed")]}{.metadata.name}{"\\t"}{.status.message}{"\\n"}{end}

No library implements kubectl's dialect: templates with text and ranges around paths without `$`, escaped
dots, and missing keys that print nothing. This module implements its paths, filters and ranges. There are no
functions and no arithmetic, so that the time for a template is limited by the size of the document.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, TypeVar

import click

from rescheduler.cli.terminal import echo, printable

__all__ = [
    "TemplateError",
    "list_output_option",
    "output_option",
    "plan_output_option",
    "print_document",
    "rendered_template",
    "text_output_option",
    "wide_output_option",
]

F = TypeVar("F", bound=Callable[..., Any])
Document = Any
Step = Callable[[Document], Iterable[Document]]

_JSONPATH: Final = "jsonpath="
_MAX_TEMPLATE: Final = 4096
_MAX_DEPTH: Final = 8
"""The most ranges inside each other."""


def _output_option(*formats: str, note: str = "") -> Callable[[F], F]:
    def validated(_ctx: click.Context, _option: click.Parameter, value: str) -> str:
        if value in formats:
            return value
        if not value.startswith(_JSONPATH):
            raise click.BadParameter(f"{value!r} is not one of {', '.join(formats)}, jsonpath=TEMPLATE")
        try:
            _Template.parse(value.removeprefix(_JSONPATH))
        except TemplateError as error:
            raise click.BadParameter(f"invalid JSONPath template: {error}") from None
        return value

    return click.option(
        "-o",
        "--output",
        metavar=f"[{'|'.join(formats)}|jsonpath=TEMPLATE]",
        callback=validated,
        default=formats[0],
        show_default=True,
        help=f"Output format{note}.",
    )


output_option: Final = _output_option("table", "json", "yaml")
text_output_option: Final = _output_option("text", "json", "yaml")
plan_output_option: Final = _output_option(
    "table", "wide", "json", "yaml", note="; docs/plan.schema.json describes JSON and YAML"
)
wide_output_option: Final = _output_option("table", "wide", "json", "yaml")
"""The option `-o` for tables that have lines below their rows on a narrow terminal; `wide` has none."""
list_output_option: Final = _output_option("table", "wide", "name", "json", "yaml")
"""The option `-o` for lists of objects: `wide` has all columns, `name` has names that other commands and
kubectl accept."""


def print_document(content: Document, output: str) -> None:
    """Print the content as JSON, as YAML or through a JSONPath template."""
    if output.startswith(_JSONPATH):
        echo(rendered_template(output.removeprefix(_JSONPATH), content), nl=False)
    elif output == "json":
        echo(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        echo(_safe_yaml(content), nl=False)


def _safe_yaml(content: Document) -> str:
    import yaml  # noqa: PLC0415

    text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    if printable(text, keep_newlines=True) != text:
        # YAML has escapes only in double quotes. The ASCII-only writer adds them where they are needed.
        text = yaml.safe_dump(content, sort_keys=False, allow_unicode=False)
    return text


# -- templates


class TemplateError(ValueError):
    """The template is not valid."""


def rendered_template(template: str, content: Document) -> str:
    """Return the text that kubectl would print for the content; raise `TemplateError`."""
    return "".join(_Template.parse(template).rendered(content))


@dataclass(frozen=True, slots=True)
class _Path:
    steps: tuple[Step, ...]

    def find(self, value: Document) -> Iterable[Document]:
        found: Iterable[Document] = [value]
        for step in self.steps:
            found = list(chain.from_iterable(map(step, found)))
        return found


@dataclass(frozen=True, slots=True)
class _Range:
    path: _Path
    body: "_Template"


@dataclass(frozen=True, slots=True)
class _Template:
    parts: tuple[str | _Path | _Range, ...]

    @classmethod
    def parse(cls, text: str) -> "_Template":
        if len(text) > _MAX_TEMPLATE:
            raise TemplateError(f"longer than {_MAX_TEMPLATE} characters")
        return cls._parse(iter(list(_tokens(text))), depth=0)

    @classmethod
    def _parse(cls, tokens: Iterator[tuple[str, bool]], *, depth: int) -> "_Template":
        if depth > _MAX_DEPTH:
            raise TemplateError(f"more than {_MAX_DEPTH} ranges inside each other")
        parts: list[str | _Path | _Range] = []
        for token, is_expression in tokens:
            if not is_expression:
                parts.append(token)
            elif token == "end":  # noqa: S105 - no secret
                if not depth:
                    raise TemplateError("{end} without {range}")
                return cls(tuple(parts))
            elif token.startswith("range "):
                path = _parse_path(token.removeprefix("range ").strip())
                parts.append(_Range(path, cls._parse(tokens, depth=depth + 1)))
            elif token[:1] in {'"', "'"}:
                parts.append(_unquoted(token))
            else:
                parts.append(_parse_path(token))
        if depth:
            raise TemplateError("{range} without {end}")
        return cls(tuple(parts))

    def rendered(self, value: Document) -> Iterator[str]:
        for part in self.parts:
            match part:
                case str():
                    yield part
                case _Path():
                    yield " ".join(map(_text, part.find(value)))
                case _Range():
                    for each in part.path.find(value):
                        yield from part.body.rendered(each)


_TOKEN: Final = re.compile(
    r"""\{\s*(?P<expression>(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\\.|[^{}"'\\])*)\}|(?P<text>[^{}]+)"""
)


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of the template, and whether each is an expression in braces."""
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise TemplateError(f"unbalanced braces or quotes at {text[place : place + 20]!r}")
        place = found.end()
        if found["text"] is not None:
            yield found["text"], False
        elif found["expression"].strip():
            yield found["expression"].strip(), True
        else:
            raise TemplateError("empty braces")


_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


def _unquoted(token: str) -> str:
    if len(token) < 2 or token[-1] != token[0]:
        raise TemplateError(f"unterminated text {token!r}")
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), token[1:-1], flags=re.DOTALL)


def _text(value: Document) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# -- paths

_STEP: Final = re.compile(
    r"""
      (?P<descent>\.\.)(?=[^.])
    | \.?\[\?\(\s*(?P<filter>(?:"[^"]*"|'[^']*'|[^"'()])+?)\s*\)\]
    | \.?\[(?P<inside>(?:"[^"]*"|'[^']*'|[^"'\]])*)\]
    | \.?(?P<field>(?:\\.|[^\s.\[\]{}()"'\\])+)
    """,
    re.VERBOSE,
)
_FILTER: Final = re.compile(
    r"""^@(?P<path>.*?)\s*(?:(?P<compare>==|!=|<=|>=|<|>)\s*(?P<literal>"[^"]*"|'[^']*'|[^\s"']+))?$"""
)
_SLICE: Final = re.compile(r"^(-?\d{1,9})?:(-?\d{1,9})?(?::(\d{1,9}))?$")
_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}


def _parse_path(text: str) -> _Path:
    rest = text[1:] if text[:1] in {"$", "@"} else text
    if text[:1] not in {"$", "@", ".", "["}:
        raise TemplateError(
            f"{text!r} is not a path that starts with a dot, such as {{.items[*].metadata.name}}"
        )
    steps: list[Step] = []
    place = 1 if rest == "." else 0
    while place < len(rest):
        found = _STEP.match(rest, place)
        if found is None:
            raise TemplateError(f"can't read {rest[place : place + 30]!r} in {text!r}")
        steps.append(_step(found, text))
        place = found.end()
    return _Path(tuple(steps))


def _step(match: re.Match[str], text: str) -> Step:
    if match["descent"]:
        return _descendants
    if match["filter"] is not None:
        return _filter_step(match["filter"])
    if match["inside"] is not None:
        return _bracket_step(match["inside"].strip(), text)
    name = re.sub(r"\\(.)", r"\1", match["field"])
    return _children if name == "*" else _field_step([name])


def _bracket_step(inside: str, text: str) -> Step:
    if inside == "*":
        return _children
    if inside[:1] in {'"', "'"}:
        names = re.findall(r""""([^"]*)"|'([^']*)'""", inside)
        return _field_step([double or single for double, single in names])
    if sliced := _SLICE.match(inside):
        start, stop, step = (int(each) if each else None for each in sliced.groups())
        if step == 0:
            raise TemplateError(f"a step of 0 in {text!r}")
        return lambda value: value[start:stop:step] if isinstance(value, list) else ()
    if not re.match(r"^-?\d{1,9}(\s*,\s*-?\d{1,9})*$", inside):
        raise TemplateError(f"can't read [{inside}] in {text!r}")
    return _index_step([int(each) for each in inside.split(",")])


def _field_step(names: Sequence[str]) -> Step:
    return lambda value: [value[name] for name in names if isinstance(value, dict) and name in value]


def _index_step(indices: Sequence[int]) -> Step:
    def step(value: Document) -> Iterable[Document]:
        items = value if isinstance(value, list) else []
        return [items[index] for index in indices if -len(items) <= index < len(items)]

    return step


def _children(value: Document) -> Iterable[Document]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else ()


def _descendants(value: Document) -> Iterable[Document]:
    """Return the value and everything below it."""
    found, waiting = [], [value]
    while waiting:
        found.append(waiting.pop())
        waiting += reversed(list(_children(found[-1])))
    return found


def _filter_step(text: str) -> Step:
    found = _FILTER.match(text)
    if found is None:
        raise TemplateError(f"can't read the filter {text!r}: write @.phase=='Failed'")
    path = _parse_path(f"@{found['path'].strip()}")
    if found["compare"] is None:
        return lambda value: [each for each in _children(value) if any(True for _ in path.find(each))]
    expected, holds = _literal(found["literal"]), _COMPARISONS[found["compare"]]

    def is_selected(item: Document) -> bool:
        return any(_compares(holds, each, expected) for each in path.find(item))

    return lambda value: [each for each in _children(value) if is_selected(each)]


def _compares(holds: Callable[[Any, Any], bool], value: Document, expected: Document) -> bool:
    try:
        return holds(value, expected)
    except TypeError:  # the values have different types
        return False


def _literal(text: str) -> Document:
    if text[:1] in {'"', "'"}:
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        raise TemplateError(f"{text!r} is not a value: text needs quotes") from None
