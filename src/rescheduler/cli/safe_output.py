"""All output goes through this module, so that text from the cluster can't control the terminal.

Names, messages and annotations are untrusted: escape sequences in them could clear the screen, set the title
or hide what follows. Every control character is therefore written as an escape. Our own styles carry a key
that is random for each process, so that text from the cluster can't forge them.
"""

import json
import re
import secrets
import unicodedata
from collections.abc import Iterable
from typing import Any, Final

import click

__all__ = ["echo", "echo_lines", "output_option", "print_document", "printable", "styled"]

_CONTROL: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories: control and format characters (among them those that reverse the reading direction),
lone surrogates, line and paragraph separators."""

_NOT_ASCII: Final = re.compile(r"[^\x20-\x7e\n\t]")
"""Almost all text is plain ASCII: only the rest is looked at character by character."""

_KEY: Final = secrets.token_hex(8)
_STYLE: Final = re.compile(rf"\x1b{_KEY}\[([0-9;]*)m")


def printable(text: str, *, keep_newlines: bool = False) -> str:
    """Return the text with everything that a terminal would act upon written as JSON writes it (`\\u001b`).

    A JSON document therefore keeps its meaning.
    """
    text = _NOT_ASCII.sub(_escaped, text)
    return text if keep_newlines else text.replace("\n", "\\n")


def _escaped(found: re.Match[str]) -> str:
    character = found.group()
    return json.dumps(character)[1:-1] if unicodedata.category(character) in _CONTROL else character


def styled(text: str, **style: Any) -> str:
    """Return the text in a style that `echo` understands."""
    return click.style(text, **style).replace("\x1b[", f"\x1b{_KEY}[")


def echo(text: str = "", *, err: bool = False, color: bool | None = None, nl: bool = True) -> None:
    """Print text that may have several lines."""
    _print(text, keep_newlines=True, err=err, color=color, nl=nl)


def echo_lines(lines: Iterable[str], *, err: bool = False, color: bool | None = None) -> None:
    """Print lines of which none can become two, whatever it contains."""
    for line in lines:
        _print(line, keep_newlines=False, err=err, color=color)


def _print(text: str, *, keep_newlines: bool, err: bool, color: bool | None, nl: bool = True) -> None:
    parts = _STYLE.split(text)
    parts[::2] = [printable(part, keep_newlines=keep_newlines) for part in parts[::2]]
    parts[1::2] = [f"\x1b[{codes}m" for codes in parts[1::2]]
    click.echo("".join(parts), err=err, color=color, nl=nl)  # noqa: TID251 - the one place


output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="Output format.",
)


def print_document(content: Any, output: str) -> None:
    """Print the content as JSON or YAML."""
    if output == "json":
        echo(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        echo(_safe_yaml(content), nl=False)


def _safe_yaml(content: Any) -> str:
    import yaml  # noqa: PLC0415

    text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    if printable(text, keep_newlines=True) != text:
        # YAML has escapes only in double quotes, which the ASCII-only writer adds where they are needed.
        text = yaml.safe_dump(content, sort_keys=False, allow_unicode=False)
    return text
