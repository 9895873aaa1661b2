"""List the files and functions that one LoadBalancing move passes through in `rescheduler simulate`.

A file counts if one of its functions runs between the start of the check and the end of its moves. Imports,
start and end of the program, and objects that are only constructed don't count. Recovery of failing pods is
disabled: it is another feature. The fewer files there are, the easier a move is to follow;
tests/unit/test_tree.py has the limit. `python -m tools.move_trace` prints them.
"""

import contextlib
import importlib
import io
import json
import pkgutil
import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Final

import kubesim
import kubevalues
import rescheduler
from rescheduler.cli import main as command
from rescheduler.daemon.checker import Checker

__all__ = ["functions_of_one_move"]

_SOURCE: Final = Path(rescheduler.__file__).parents[1]
_PRODUCT: Final = tuple(f"{_SOURCE / package.__name__}/" for package in (rescheduler, kubevalues))
_CONSTRUCTORS: Final = frozenset({"__init__", "__post_init__"})
_START: Final = Checker.check.__qualname__
_END: Final = "_source_pods_gone"
"""The function that `simulate` calls when all moves are over, before it prints them."""
_ARGUMENTS: Final = ("--strategy", "LoadBalancing", "--now", "2026-03-02T12:00:00Z", "--checks", "1")
_NODES: Final = ("n1", "n2", "n3")


def functions_of_one_move() -> dict[str, set[str]]:
    """Simulate a cluster with one loaded node, and return the functions by file, relative to `src`."""
    for package in (rescheduler, kubesim, kubevalues):
        _import_all(package)
    functions: defaultdict[str, set[str]] = defaultdict(set)
    is_checking = False

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal is_checking
        code = frame.f_code
        is_checking = (is_checking or code.co_qualname == _START) and code.co_qualname != _END
        if is_checking and event == "call" and _CONSTRUCTORS.isdisjoint(code.co_qualname.split(".")):
            functions[code.co_filename].add(code.co_qualname)

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        saved = Path(folder) / "cluster.json"
        saved.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": _cluster()}))
        configuration = Path(folder) / "configuration.json"
        configuration.write_text(json.dumps(_configuration()))
        threading.setprofile(profile)
        sys.setprofile(profile)
        try:
            files_given = ("--from", str(saved), "--config", str(configuration))
            command(["simulate", *files_given, *_ARGUMENTS], standalone_mode=False)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return {
        str(Path(file).relative_to(_SOURCE)): names
        for file, names in sorted(functions.items())
        if file.startswith(_PRODUCT)
    }


def _import_all(package: ModuleType) -> None:
    """Import every module now, so that no import runs inside the trace."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _configuration() -> dict[str, Any]:
    settings = {"name": "Rescheduler", "args": {"failedPods": {"enabled": False}}}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [settings]}],
    }


def _cluster() -> list[dict[str, Any]]:
    """Return three nodes, and three Ready pods of three ReplicaSets on the first of them."""
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    objects: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"allocatable": amounts, "capacity": amounts, "conditions": ready},
        }
        for name in _NODES
    ]
    for number in range(3):
        name, labels = f"web{number}", {"app": f"web{number}"}
        resources = {"requests": {"cpu": "2", "memory": "1Gi"}}
        spec = {"containers": [{"name": "c", "image": "c", "resources": resources}]}
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
        template = {"metadata": {"labels": labels}, "spec": spec}
        objects += [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {"name": name, "namespace": "shop", "uid": name},
                "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
            },
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{name}-a",
                    "namespace": "shop",
                    "uid": f"{name}-a",
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                    "labels": labels,
                    "ownerReferences": [owner],
                },
                "spec": {**spec, "nodeName": _NODES[0]},
                "status": {"phase": "Running", "conditions": ready},
            },
        ]
    return objects


if __name__ == "__main__":
    files = functions_of_one_move()
    print(*files, f"{len(files)} files", sep="\n")
