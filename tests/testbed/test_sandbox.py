"""Where real nodes can't run, the test run reports it clearly, and fails in CI."""

import pytest

from tests.testbed.nodes import sandbox

LACKING = ["overlayfs: unknown filesystem type 'overlay'", "nftables: No such file or directory"]


@pytest.fixture
def poor_machine(monkeypatch):
    monkeypatch.setattr(sandbox, "missing_features", lambda _folder: LACKING)
    monkeypatch.delenv(sandbox.REQUIRED, raising=False)


def test_what_is_missing_is_named_and_nothing_runs(poor_machine, capsys, tmp_path):
    assert sandbox.main(["touch", str(tmp_path / "ran")]) == 0
    said = capsys.readouterr().err
    assert all(each in said for each in LACKING)
    assert "SKIPPED: nothing was tested" in said
    assert not (tmp_path / "ran").exists()


def test_it_fails_where_real_nodes_are_required(poor_machine, monkeypatch, capsys):
    monkeypatch.setenv(sandbox.REQUIRED, "1")
    assert sandbox.main(["true"]) == 1
    assert "FAILED" in capsys.readouterr().err


def test_real_nodes_are_refused_outside_of_a_sandbox(monkeypatch):
    monkeypatch.delenv(sandbox.GROUP, raising=False)
    with pytest.raises(sandbox.NotInSandboxError, match="make e2e-nodes"):
        sandbox.require_sandbox()
