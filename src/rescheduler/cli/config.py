"""`rescheduler config`: look at the configuration before running with it."""

import sys
from pathlib import Path

import click

from rescheduler.cli.safe_output import echo

__all__ = ["config"]

_USAGE_ERROR = 2


@click.group()
def config() -> None:
    """Checks a configuration, or shows the defaults."""


@config.command()
@click.argument("file", metavar="FILE")
def check(file: str) -> None:
    """Prints what a file comes to, or all that is wrong.

    FILE may be -, for standard input. The result is a complete file with every setting; defaults are marked.
    What has no effect in FILE is said on standard error. Exit code 2 if FILE can't be used.
    """
    from rescheduler.config.document import LARGEST_BYTES  # noqa: PLC0415 - `--help` must not wait for it
    from rescheduler.config.faults import ConfigurationError  # noqa: PLC0415
    from rescheduler.config.loading import load_content, load_file  # noqa: PLC0415
    from rescheduler.config.rendering import effective  # noqa: PLC0415
    from rescheduler.config.strategies import known_strategies  # noqa: PLC0415

    try:
        if file == "-":
            loaded = load_content(
                sys.stdin.buffer.read(LARGEST_BYTES + 1), known_strategies(), source="standard input"
            )
        else:
            loaded = load_file(Path(file), known_strategies())
    except ConfigurationError as error:
        echo(str(error), err=True)
        sys.exit(_USAGE_ERROR)
    for note in loaded.notes:
        echo(f"note: {note}", err=True)
    echo(effective(loaded.configuration), nl=False)


@config.command()
def show() -> None:
    """Prints the defaults as a commented file."""
    from rescheduler.config.rendering import commented_defaults  # noqa: PLC0415

    echo(commented_defaults(), nl=False)
