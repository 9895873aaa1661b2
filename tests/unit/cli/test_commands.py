"""The list of commands."""

import importlib

import pytest
from click.testing import CliRunner

from rescheduler.cli import COMMANDS, main


def test_all_commands_are_listed_with_what_they_do():
    output = CliRunner().invoke(main, ["--help"]).output
    for name, command in COMMANDS.items():
        assert f"  {name} " in output
        assert command.summary.split(",")[0] in output


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_list_says_what_the_command_itself_says(name):
    module, _, attribute = COMMANDS[name].target.partition(":")
    described = getattr(importlib.import_module(module), attribute).help
    assert COMMANDS[name].summary == described.split("\n\n")[0]
