"""The generated modules match the .proto files."""

import shutil
from pathlib import Path

import pytest

from tools import protobuf_schema


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The codecs in a tree of its own, where it may be damaged."""
    copied = tmp_path / "rescheduler" / "kube" / "codecs"
    shutil.copytree(protobuf_schema.CODECS, copied, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(protobuf_schema, "CODECS", copied)
    monkeypatch.setattr(protobuf_schema, "SOURCE_ROOT", tmp_path)
    return copied


def test_what_is_committed_is_up_to_date(capfd: pytest.CaptureFixture[str]):
    assert protobuf_schema.main(["--check"]) == 0, capfd.readouterr().err


def test_a_change_of_a_schema_is_noticed_and_fixed(copy: Path, capfd: pytest.CaptureFixture[str]):
    schema = copy / "api.proto"
    schema.write_text(schema.read_text().replace("unschedulable = 4", "unschedulable = 6"))
    assert protobuf_schema.main(["--check"]) == 1
    assert "api_pb2.py" in (reported := capfd.readouterr().err)
    assert "make generate" in reported
    assert protobuf_schema.main([]) == 0
    assert protobuf_schema.main(["--check"]) == 0


def test_a_module_whose_schema_is_gone_is_noticed(copy: Path, capfd: pytest.CaptureFixture[str]):
    (copy / "old_pb2.py").write_text("")
    assert protobuf_schema.main(["--check"]) == 1
    assert "old_pb2.py" in capfd.readouterr().err


def test_other_arguments_are_refused(capfd: pytest.CaptureFixture[str]):
    assert protobuf_schema.main(["--chek"]) == 2
    assert "usage" in capfd.readouterr().err
