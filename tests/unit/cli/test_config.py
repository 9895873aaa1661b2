"""`rescheduler config`, run as a user runs it."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from rescheduler.cli import main

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "examples" / "original-sample.yaml"


@pytest.fixture
def run():
    def invoke(*arguments, stdin=None):
        return CliRunner().invoke(main, ["config", *map(str, arguments)], input=stdin)

    return invoke


def test_check_prints_the_effective_configuration(run):
    result = run("check", SAMPLE)
    assert result.exit_code == 0
    assert (
        "          enabledStrategies: [LoadBalancing, ResourceOptimization, NodeMaintenance]\n"
        in result.stdout
    )
    assert "          podCooldown: 30m  # default\n" in result.stdout


def test_check_says_on_standard_error_what_has_no_effect(run):
    result = run("check", SAMPLE)
    assert "note: profiles[0].plugins is ignored: it is a setting of the scheduler\n" in result.stderr
    assert "note" not in result.stdout


def test_what_check_prints_passes_check_without_a_note(run):
    first = run("check", SAMPLE)
    second = run("check", "-", stdin=first.stdout)
    assert (second.exit_code, second.stdout, second.stderr) == (0, first.stdout, "")


def test_check_prints_all_errors_and_exits_with_2(run):
    result = run("check", ROOT / "examples" / "with-mistakes.yaml")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "with-mistakes.yaml: 9 errors\n" in result.stderr
    assert (
        "profiles[0].pluginConfig[0].args.cpuThreshold: 180 is not allowed: a number from 0 to 100"
        in result.stderr
    )


def test_show_prints_a_file_that_passes_check(run):
    shown = run("show")
    assert shown.exit_code == 0
    checked = run("check", "-", stdin=shown.stdout)
    assert (checked.exit_code, checked.stderr) == (0, "")
    values = [
        line for line in checked.stdout.splitlines() if ": " in line and not line.lstrip().startswith("- ")
    ]
    assert all(line.endswith("# default") for line in values if not line.startswith(("apiVersion", "kind")))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda folder: folder / "none.yaml", "No such file or directory", id="no such file"),
        pytest.param(lambda folder: folder, "Is a directory", id="a directory"),
        pytest.param(lambda folder: "a\x00b", "the file: embedded null", id="an impossible name"),
    ],
)
def test_a_file_that_can_not_be_read_is_an_error_in_words(run, tmp_path, make, message):
    result = run("check", make(tmp_path))
    assert result.exit_code == 2
    assert message in result.stderr
    assert "a readable file is required" in result.stderr


def test_empty_input_is_refused(run):
    result = run("check", "-", stdin="")
    assert result.exit_code == 2
    assert "standard input: 1 error\n" in result.stderr
    assert "the file: empty: a KubeSchedulerConfiguration" in result.stderr


def test_check_without_a_file_is_a_usage_error(run):
    assert run("check").exit_code == 2


def test_help_waits_for_nothing_heavy():
    code = (
        "import sys; from click.testing import CliRunner; from rescheduler.cli import main\n"
        "assert 'config' in CliRunner().invoke(main, ['--help']).output\n"
        "heavy = {'pydantic', 'yaml', 'aiohttp', 'rich', 'kubernetes_asyncio'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_reading_the_settings_does_not_need_pydantic():
    code = (
        "import sys; from rescheduler.config.scheduler_file import render_defaults\n"
        "assert render_defaults() and 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("command", [["config"], ["config", "--help"], ["config", "check", "-h"]])
def test_help_is_there(command):
    result = CliRunner().invoke(main, command)
    assert "Usage:" in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
