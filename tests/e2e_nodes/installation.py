"""Our image, installed in a namespace that enforces `restricted`, with plain manifests or with Helm."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.testbed import ControlPlane
from tests.testbed.helm import helm
from tests.testbed.nodes import Nodes

__all__ = ["CHART", "HOME", "IMAGE", "Installation", "image_reference"]

ROOT = Path(__file__).resolve().parents[2]
IMAGE = ROOT / "dist" / "rescheduler-image.tar"
CHART = ROOT / "deploy" / "helm"
HOME = "rescheduler"
DEPLOYMENTS = ("rescheduler", "rescheduler-webhook")
INSTALLED_KINDS = (
    "namespaces,customresourcedefinitions,clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,"
    "deployments,services,configmaps,secrets,leases,poddisruptionbudgets,networkpolicies,"
    "mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,"
    "validatingadmissionpolicybindings"
)


def image_reference(archive: Path = IMAGE) -> str:
    """The name that the image's archive has."""
    listed = subprocess.run(
        ["tar", "xOf", str(archive), "index.json"], capture_output=True, check=True
    ).stdout
    return str(json.loads(listed)["manifests"][0]["annotations"]["io.containerd.image.name"])


@dataclass(frozen=True)
class Installation:
    """Does what an administrator does, with the same commands."""

    control_plane: ControlPlane
    nodes: Nodes
    folder: Path
    """For files with values."""

    def prepare(self) -> None:
        """Make the image known to all nodes, and a namespace that enforces `restricted`."""
        self.nodes.import_image(IMAGE)
        self.nodes.kubectl("create", "namespace", HOME)
        for mode in ("enforce", "warn"):
            self.nodes.kubectl("label", "namespace", HOME, f"pod-security.kubernetes.io/{mode}=restricted")

    def values(self, args: Mapping[str, Any], **more: Any) -> Path:
        """A file with values for our image and these args."""
        repository, _, tag = image_reference().rpartition(":")
        image = {"repository": repository, "tag": tag, "pullPolicy": "Never"}
        path = self.folder / "values.yaml"
        path.write_text(yaml.safe_dump({"dryRun": False, "args": dict(args), "image": image, **more}))
        return path

    def apply_manifests(self, values: Path) -> None:
        manifests = self.rescheduler("manifests", "--values", str(values))
        self.nodes.kubectl("apply", "--server-side", "-f", "-", stdin=manifests)

    def helm(self, *arguments: str) -> str:
        return self._run([str(helm()), *arguments, "--namespace", HOME])

    def rescheduler(self, *arguments: str, expected: tuple[int, ...] = (0,)) -> str:
        """Run our command line as an administrator would, and return what it prints."""
        return self._run([str(Path(sys.executable).with_name("rescheduler")), *arguments], expected)

    def wait_ready(self) -> None:
        for name in DEPLOYMENTS:
            self.nodes.kubectl("rollout", "status", "-n", HOME, f"deployment/{name}", "--timeout=150s")

    def leader(self) -> str:
        """The identity of the pod that leads; empty if none does."""
        lease = json.loads(self.nodes.kubectl("get", "lease", "-n", HOME, "rescheduler", "-o", "json"))
        return str(lease["spec"].get("holderIdentity") or "")

    def pods(self) -> list[dict[str, Any]]:
        return list(json.loads(self.nodes.kubectl("get", "pods", "-n", HOME, "-o", "json"))["items"])

    def leading_pod(self) -> str:
        identity = self.leader()
        (name,) = (each["metadata"]["name"] for each in self.pods() if each["metadata"]["name"] in identity)
        return str(name)

    def everything(self) -> set[str]:
        """The names of all objects of the kinds that rescheduler installs or makes, except those of tests."""
        listed = self.nodes.kubectl("get", INSTALLED_KINDS, "-A", "-o", "json")
        return {
            "/".join((item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]))
            for item in json.loads(listed)["items"]
            if not item["metadata"].get("namespace", "").startswith("test-")
            and not item["metadata"]["name"].startswith("test-")
        }

    def _run(self, command: list[str], expected: tuple[int, ...] = (0,)) -> str:
        environment = {**os.environ, "KUBECONFIG": str(self.control_plane.kubeconfig)}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        shown = " ".join(command[1:])
        assert done.returncode in expected, f"`{shown}`: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout
