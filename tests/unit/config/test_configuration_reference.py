"""The reference in the docs matches the code."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from rescheduler.cli import main as cli
from rescheduler.config.policy import Policy
from rescheduler.config.policy_blocks import settings
from tools.configuration_reference import TABLES, main, with_reference
from tools.generated_section import BEGIN, END

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs" / "configuration.md"


def test_the_reference_in_the_documentation_is_up_to_date():
    assert main(["--check", str(DOCUMENT)]) == 0


def test_every_setting_stands_in_the_table():
    document = DOCUMENT.read_text()
    for setting in settings(Policy):
        assert f"| `{setting.name}` |" in document


def test_every_block_has_a_table_of_its_own():
    """Of a block that is only named, a user can't know the settings."""

    def blocks(of):
        for setting in settings(of):
            schema = setting.schema.entries or setting.schema
            if schema.block:
                yield schema.block
                yield from blocks(schema.block)

    assert set(blocks(Policy)) <= {block for _, _, block in TABLES}


def test_an_outdated_document_is_reported_and_fixed(tmp_path, capsys):
    file = tmp_path / "configuration.md"
    file.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    assert main(["--check", str(file)]) == 1
    assert "run `make generate`" in capsys.readouterr().err
    assert main(["--write", str(file)]) == 0
    assert main(["--check", str(file)]) == 0
    assert file.read_text().startswith("before\n")
    assert file.read_text().endswith("after\n")


def test_a_document_without_the_markers_is_refused():
    with pytest.raises(ValueError, match="markers"):
        with_reference("nothing")


def test_the_check_runs_as_a_module_as_make_check_runs_it():
    command = [sys.executable, "-m", "tools.configuration_reference", "--check", str(DOCUMENT)]
    assert subprocess.run(command, check=False).returncode == 0


@pytest.mark.parametrize("example", ["original-sample", "with-mistakes"])
def test_the_output_shown_in_the_documentation_is_real(example, monkeypatch):
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(cli, ["config", "check", f"examples/{example}.yaml"])
    _, _, after = DOCUMENT.read_text().partition(f"$ rescheduler config check examples/{example}.yaml\n")
    shown = after.partition("```")[0].removesuffix("…\n")
    assert shown
    assert (result.stderr + result.stdout).startswith(shown)


def test_the_yaml_in_the_documentation_loads(loading):
    blocks = [block.partition("```")[0] for block in DOCUMENT.read_text().split("```yaml\n")[1:]]
    assert len(blocks) == 2
    whole, args = blocks
    assert loading.text(whole).configuration.policy.windows
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    indented = "".join(f"      {line}\n" for line in args.splitlines())
    assert loading.text(f"{head}profiles:\n- pluginConfig:\n  - name: Rescheduler\n    args:\n{indented}")


@dataclass
class _WithoutRule:
    pool: str = "old"


def test_a_setting_whose_type_has_no_rule_is_refused_with_what_is_missing():
    with pytest.raises(AssertionError, match="has no SettingRule"):
        settings(_WithoutRule)
