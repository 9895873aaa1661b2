"""Documents for programs."""

import json
from typing import Any

import click

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
        click.echo(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        import yaml  # noqa: PLC0415

        click.echo(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), nl=False)
