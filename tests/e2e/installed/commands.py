"""Runs our commands and kubectl as users do, and compares what is in a cluster before and after."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.testbed import ControlPlane

__all__ = ["Done", "apply_manifests", "objects_of_others", "rescheduler"]

Done = subprocess.CompletedProcess[str]

_VOLATILE = {"leases", "events", "pods", "endpointslices", "endpoints"}
"""Written by nodes and controllers all the time."""
_CLUSTER_SCOPED = (
    "namespaces,clusterroles,clusterrolebindings,customresourcedefinitions,mutatingwebhookconfigurations,"
    "validatingwebhookconfigurations,priorityclasses,storageclasses"
)


def rescheduler(*arguments: str, kubeconfig: Path | None = None, stdin: str = "") -> Done:
    command = [str(Path(sys.executable).with_name("rescheduler")), *arguments]
    env = {**os.environ, **({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {})}
    return subprocess.run(
        command, env=env, input=stdin, capture_output=True, text=True, check=False, timeout=300
    )


def apply_manifests(control_plane: ControlPlane, *arguments: str) -> None:
    printed = rescheduler("manifests", *arguments)
    assert printed.returncode == 0, printed.stderr
    control_plane.kubectl("apply", "-f", "-", stdin=printed.stdout)


def objects_of_others(control_plane: ControlPlane) -> dict[str, tuple[str, str]]:
    """Return uid and resourceVersion of everything in the cluster that does not change by itself.

    An aggregated ClusterRole has its rules in place of the version, because the controller manager writes it.
    """
    kinds = control_plane.kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name").split()
    wanted = [kind for kind in kinds if kind.partition(".")[0] not in _VOLATILE]
    found: dict[str, tuple[str, str]] = {}
    for group in (",".join(wanted), _CLUSTER_SCOPED):
        listed: dict[str, Any] = json.loads(control_plane.kubectl("get", group, "-A", "-o", "json"))
        for item in listed["items"]:
            about = item["metadata"]
            name = f"{item['kind']} {about.get('namespace', '')}/{about['name']}"
            version = json.dumps(item["rules"]) if "aggregationRule" in item else about["resourceVersion"]
            found[name] = (about["uid"], version)
    return found
