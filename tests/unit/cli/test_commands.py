"""The list of commands."""

import importlib
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from rescheduler.cli import COMMANDS, main
from rescheduler.cli.cluster_source import ClusterSource
from rescheduler.cli.commands.plan_commands import PRELOADED_MODULES


def test_all_commands_are_listed_with_what_they_do():
    output = CliRunner().invoke(main, ["--help"]).output
    for name, command in COMMANDS.items():
        assert f"  {name} " in output
        assert command.summary.split(",")[0] in output


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_help_of_a_command_starts_with_its_summary(name):
    described = main.get_command(click.Context(main), name).help
    assert COMMANDS[name].summary == described.split("\n\n")[0]


@pytest.mark.parametrize("command", ["move", "drain", "explain"])
def test_ctrl_c_before_the_first_move_has_the_same_exit_code_as_later(command, monkeypatch):
    """Also while the command reads the cluster. It was 1, as for an error."""

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ClusterSource, "effective_configuration", interrupted)
    result = CliRunner().invoke(main, [command, "pod/web"])
    assert result.exit_code == 130
    assert result.output == "\n"


def test_preloaded_modules_exist():
    """They are named as strings, which no type checker checks."""
    for module in PRELOADED_MODULES:
        importlib.import_module(module)


def test_what_a_long_collection_leaves_is_not_collected_again():
    """Otherwise each one stops the event loop of a daemon with many pods."""
    program = """
import gc
from rescheduler.cli.execution import short_collections
with short_collections():
    kept = [[] for _ in range(2_000_000)]
    gc.collect()
    assert gc.get_freeze_count() > len(kept) / 2
"""
    subprocess.run([sys.executable, "-c", program], check=True)
