"""The generated modules are what the .proto files say."""

import shutil
from pathlib import Path

import pytest

from rescheduler.kube.wire import generate


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The wire package in a tree of its own, where it may be damaged."""
    copied = tmp_path / "rescheduler" / "kube" / "wire"
    shutil.copytree(generate.HERE, copied, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(generate, "HERE", copied)
    monkeypatch.setattr(generate, "SOURCE_ROOT", tmp_path)
    return copied


def test_what_is_committed_is_up_to_date(capfd: pytest.CaptureFixture[str]):
    assert generate.main(["--check"]) == 0, capfd.readouterr().err


def test_a_change_of_a_schema_is_noticed_and_mended(copy: Path, capfd: pytest.CaptureFixture[str]):
    schema = copy / "nodes.proto"
    schema.write_text(schema.read_text().replace("unschedulable = 4", "unschedulable = 6"))
    assert generate.main(["--check"]) == 1
    assert "nodes_pb2.py" in (told := capfd.readouterr().err)
    assert "make generate" in told
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0


def test_a_module_whose_schema_is_gone_is_noticed(copy: Path, capfd: pytest.CaptureFixture[str]):
    (copy / "old_pb2.py").write_text("")
    assert generate.main(["--check"]) == 1
    assert "old_pb2.py" in capfd.readouterr().err


def test_other_arguments_are_refused(capfd: pytest.CaptureFixture[str]):
    assert generate.main(["--chek"]) == 2
    assert "usage" in capfd.readouterr().err
