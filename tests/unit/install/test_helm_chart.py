"""The committed Helm chart matches the code. What Helm renders is tested in tests/e2e."""

import json
from pathlib import Path

import msgspec
import pytest
import yaml

from rescheduler.install.install_options import Options
from tools.helm_chart import chart, main


def test_the_values_are_the_defaults_of_the_options():
    values = yaml.safe_load(chart()["values.yaml"])
    assert msgspec.convert(values, Options) == Options()


def test_every_value_is_described():
    schema = json.loads(chart()["values.schema.json"])

    def undescribed(part, path):
        for name, inner in part.get("properties", {}).items():
            if "description" not in inner:
                yield f"{path}.{name}"
            yield from undescribed(inner, f"{path}.{name}")

    assert not list(undescribed(schema, ""))
    assert schema["additionalProperties"] is False


def test_no_placeholder_is_left_in_any_template():
    for name, text in chart().items():
        assert "⟦" not in text, name


def test_every_value_that_a_template_uses_exists():
    values = yaml.safe_load(chart()["values.yaml"])
    for name, text in chart().items():
        for part in text.split(".Values.")[1:]:
            found = values
            path = part.split(" ")[0].rstrip("})")
            for step in path.split("."):
                assert step in found, f"{name}: {path}"
                found = found[step]


def test_every_value_is_used_by_some_template():
    values = yaml.safe_load(chart()["values.yaml"])
    text = "".join(content for name, content in chart().items() if name.startswith("templates/"))

    def leaves(part, path):
        for name, inner in part.items():
            is_group = name in {"image", "daemon", "webhook"}
            yield from leaves(inner, f"{path}.{name}") if is_group else [f"{path}.{name}"]

    assert [path for path in leaves(values, ".Values") if path not in text] == []


@pytest.mark.parametrize("file", ["Chart.yaml", "values.yaml", "templates/daemon.yaml"])
def test_a_chart_that_was_edited_by_hand_is_found_out(tmp_path: Path, file, capsys):
    assert main(["--write", str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0
    (tmp_path / file).write_text("edited", encoding="utf-8")
    assert main(["--check", str(tmp_path)]) == 1
    assert f"{file} is out of date: run `make generate`" in capsys.readouterr().err
