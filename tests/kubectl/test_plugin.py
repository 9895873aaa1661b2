"""`kubectl rescheduler …`: kubectl finds the program by its name on the PATH."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kubectl.objects import node

pytestmark = pytest.mark.kubectl


def test_kubectl_runs_our_commands_in_its_own_cluster(kubectl_path, cluster, tmp_path):
    cluster.load(node("east"), node("west"))
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(cluster.kubeconfig)
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [kubectl_path, "rescheduler", "plan"],
        env={**os.environ, "PATH": paths, "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Nothing to move.")
    assert "east" in done.stdout
