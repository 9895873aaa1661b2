"""A small simulated cluster that keeps running, for commands that move pods: three nodes, all pods on the
first.
"""

import json
from datetime import UTC, datetime
from pathlib import Path

import yaml

from kubesim.scenario import initial_objects, parse_scenario

__all__ = ["QUICK", "living_objects", "scenario", "write_config"]

QUICK = {"settleTime": "0s", "minPodAge": "0s", "usageSource": "requests"}
"""So that no test has to wait."""


def scenario(*workloads: dict) -> dict:
    web = {"namespace": "shop", "name": "web", "cpu": "900m", "memory": "256Mi", "on": {"node-1": 4}}
    return {
        "seed": 5,
        "pools": [{"name": "node", "count": 3, "cpu": 4, "memory": "8Gi"}],
        "workloads": [web, *workloads],
    }


def living_objects(content: dict) -> list[dict]:
    """Return the objects as they are now."""
    raw = yaml.safe_dump(content).encode()
    return initial_objects(parse_scenario(raw, source="test"), datetime.now(UTC))


def write_config(path: Path, **args) -> Path:
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "pluginConfig": [{"name": "Rescheduler", "args": {**QUICK, **args}}],
            }
        ],
    }
    path.write_text(json.dumps(content))
    return path
