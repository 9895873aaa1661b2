"""Helm renders the chart to the objects that `rescheduler manifests` prints."""

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from rescheduler.install.install_options import Options
from rescheduler.install.manifests import install_manifests
from tests.testbed.helm import helm

CHART = Path(__file__).parents[3] / "deploy" / "helm"

CHOSEN: dict[str, dict[str, Any]] = {
    "nothing chosen": {},
    "everything chosen": {
        "image": {"repository": "registry.example/rescheduler", "tag": "1.2.3", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "pull"}],
        "logLevel": "debug",
        "dryRun": False,
        "args": {"cpuThreshold": 70, "enabledStrategies": ["NodeMaintenance"]},
        # Helm merges maps with the defaults: all that they say has to be said again.
        "daemon": {
            "replicas": 3,
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
        },
        "webhook": {"replicas": 1, "extenderOnly": True},
        "podAnnotations": {"example.com/team": "sre"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "arch", "operator": "Exists"}]}]
                }
            }
        },
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "priorityClassName": "system-cluster-critical",
    },
    "with alerts": {"prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}}},
    "with a ServiceMonitor": {
        "serviceMonitor": {"enabled": True, "interval": "15s", "labels": {"release": "prometheus"}}
    },
    "without the webhook": {"webhook": {"enabled": False}},
    "without the web page": {"web": {"enabled": False, "tlsSecret": "page-tls"}},
    "with the web page served by a Service": {
        "web": {"actions": True, "tlsSecret": "page-tls", "hosts": "page.example"},
        "networkPolicies": {"webFrom": [{"podSelector": {}}]},
    },
    "without admission policies": {"admissionPolicies": {"enabled": False}},
    "with moves in system namespaces": {"admissionPolicies": {"systemNamespaces": True}},
}


def rendered(values: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [helm(), "template", "rescheduler", CHART, "--namespace", "somewhere", "--kube-version", "1.30"]
    return subprocess.run(
        [*command, "--values", values, *arguments], capture_output=True, text=True, check=False
    )


def by_name(items: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Drop what differs on purpose: Helm creates the namespace, and an annotation keeps the definition."""
    for item in items:
        item["metadata"].pop("annotations", None)
        if item["kind"] == "ConfigMap" and "data" in item:  # the same file, laid out differently
            item["data"] = {name: yaml.safe_load(text) for name, text in item["data"].items()}
    return {(item["kind"], item["metadata"]["name"]): item for item in items if item["kind"] != "Namespace"}


@pytest.mark.parametrize("values", CHOSEN.values(), ids=CHOSEN.keys())
def test_helm_renders_the_same_objects(values: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    done = rendered(file)
    assert done.returncode == 0, done.stderr
    found = by_name([item for item in yaml.safe_load_all(done.stdout) if item])
    wanted = by_name(install_manifests(msgspec.convert(values, Options), namespace="somewhere"))
    assert found.keys() == wanted.keys()
    for name, item in wanted.items():
        assert found[name] == item


def test_values_that_the_chart_does_not_know_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("deamon: {replicas: 3}")
    done = rendered(file)
    assert done.returncode != 0
    assert "deamon" in done.stderr


def test_lint_finds_nothing(tmp_path: Path) -> None:
    done = subprocess.run([helm(), "lint", "--strict", CHART], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
