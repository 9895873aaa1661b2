"""Documents for programs: the same content as the tables, with escapes that their readers undo."""

import json
from typing import Any

import click

from rescheduler.cli.safe_output import echo, printable

__all__ = ["output_option", "print_document"]

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="For people, or for programs.",
)


def print_document(content: Any, output: str) -> None:
    if output == "json":
        echo(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        echo(_as_yaml(content), nl=False)


def _as_yaml(content: Any) -> str:
    import yaml  # noqa: PLC0415

    text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    if printable(text, keep_newlines=True) != text:
        # YAML knows escapes only between double quotes, which its own writer puts where they are needed.
        text = yaml.safe_dump(content, sort_keys=False, allow_unicode=False)
    return text
