"""Real nodes beside a control plane.

    with ControlPlane(folder, with_nodes(QUICK, 3)) as cluster, Nodes(cluster) as nodes:
        nodes["node-1"].kill()

Runs in a sandbox (`sandbox.py`): a bridge joins the control plane, at 172.30.0.1, with the nodes; each node
has a network of pods, which plain routes connect.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.testbed.cache import NodeBinaries, located_node_binaries
from tests.testbed.control_plane import ControlPlane
from tests.testbed.credentials import KUBE_PROXY
from tests.testbed.nodes.cluster_addons import cluster_dns
from tests.testbed.nodes.node_config import CONTROL_PLANE_ADDRESS, PAUSE_IMAGE, NodeSettings
from tests.testbed.nodes.node_images import program_image
from tests.testbed.nodes.real_node import NodeError, NodeShape, RealNode
from tests.testbed.nodes.sandbox import require_sandbox
from tests.testbed.options import Options
from tests.testbed.readiness import until

__all__ = ["CONTROL_PLANE_ADDRESS", "Nodes", "with_nodes"]

_SERVICES = "10.96.0.0/16"
_READY_WITHIN_S = 120.0
_MOST = 9


def with_nodes(options: Options, count: int = 3) -> Options:
    """The options of a control plane that has real nodes."""
    if not 1 <= count <= _MOST:
        raise ValueError(f"{count} nodes: between 1 and {_MOST} are possible")
    names = tuple(f"node-{number}" for number in range(1, count + 1))
    return replace(options, address=CONTROL_PLANE_ADDRESS, real_nodes=names, service_accounts=True)


class Nodes:
    """As many nodes as the control plane has names for, by default each in its own zone."""

    def __init__(
        self,
        control_plane: ControlPlane,
        shapes: Sequence[NodeShape] = (),
        binaries: NodeBinaries | None = None,
        *,
        dns: bool = True,
    ) -> None:
        self._group = require_sandbox()
        self._control_plane = control_plane
        self._binaries = binaries or located_node_binaries()
        self._folder = control_plane.run_dir.data / "nodes"
        self._dns = dns
        self._nodes: dict[str, RealNode] = {}
        self._shapes = shapes

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __getitem__(self, name: str) -> RealNode:
        return self._nodes[name]

    def __iter__(self) -> Iterator[RealNode]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def binaries(self) -> NodeBinaries:
        return self._binaries

    # -- start and stop

    def start(self) -> None:
        """Return when every node is Ready and cluster DNS answers. Nothing is left when it fails."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._make_nodes()
            for node in self:
                node.begin_start()
            images = [self.image("pause", PAUSE_IMAGE)]
            images += [self.image("coredns")] if self._dns else []
            for node in self:
                node.wait_started()
            self.route_services()
            for archive in images:
                self.import_image(archive)
            self.wait_ready()
            if self._dns:
                self.apply(*cluster_dns())
                self.kubectl("rollout", "status", "-n", "kube-system", "deployment/coredns", "--timeout=120s")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        with ThreadPoolExecutor(max_workers=_MOST) as pool:
            list(pool.map(RealNode.remove, self._nodes.values()))
        for node in self:
            self._keep_logs(node)
        self._nodes.clear()
        for network in (_SERVICES, *(_pods(number) for number in range(1, _MOST + 1))):
            subprocess.run(["ip", "route", "del", network], capture_output=True, check=False)

    def wait_ready(self, *nodes: RealNode) -> None:
        """Return when these, or all, are Ready and take pods."""
        wanted = {node.name for node in nodes or self}
        if not until(lambda: wanted <= self._ready_names(), _READY_WITHIN_S):
            lacking = ", ".join(sorted(wanted - self._ready_names()))
            raise NodeError(f"not Ready after {_READY_WITHIN_S:.0f} s: {lacking}; logs in {self._folder}")

    def route_services(self) -> None:
        """Let the API server reach Services, through a node that lives: its kube-proxy knows them."""
        alive = [node for node in self if node.alive() and node.is_reachable]
        if alive:
            _ip("route", "replace", _SERVICES, "via", alive[0].address)

    def _keep_logs(self, node: RealNode) -> None:
        to = self._control_plane.run_dir.logs / node.name
        shutil.rmtree(to, ignore_errors=True)
        if node.logs.exists():
            shutil.copytree(node.logs, to)

    # -- use

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        return self._control_plane.kubectl(*arguments, stdin=stdin)

    def apply(self, *objects: dict[str, Any]) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(listed))

    def image(self, program: str, reference: str = "") -> Path:
        """An OCI archive with one of the static programs, by default named testbed.local/PROGRAM:1."""
        return program_image(
            self._binaries.programs / program, reference or f"testbed.local/{program}:1", self._folder
        )

    def import_image(self, archive: Path) -> None:
        """Make an image known to every node that runs."""
        with ThreadPoolExecutor(max_workers=_MOST) as pool:
            list(pool.map(lambda node: node.import_image(archive), [node for node in self if node.alive()]))

    def memory_used_bytes(self) -> int:
        """What the nodes use with everything on them, without the control plane."""
        return sum(node.memory_used_bytes() for node in self if node.alive())

    # -- inside

    def _make_nodes(self) -> None:
        names = self._control_plane.options.real_nodes
        if not names:
            raise NodeError("the control plane knows no real nodes: start it with `with_nodes(options)`")
        addresses = {number: f"172.30.0.{10 + number}" for number in range(1, len(names) + 1)}
        proxy_kubeconfig = self._kubeconfig(KUBE_PROXY)
        self._allow_kube_proxy()
        for number, name in enumerate(names, start=1):
            folder = self._folder / name
            shape = self._shapes[number - 1] if self._shapes else NodeShape(zone=f"zone-{number}")
            settings = NodeSettings(
                name=name,
                number=number,
                address=addresses[number],
                gateway=CONTROL_PLANE_ADDRESS,
                folder=str(folder),
                disk=str(self._folder / f"{name}.disk"),
                memory_bytes=shape.memory_bytes,
                reserved_cpu_millis=shape.reserved_cpu_millis,
                kubeconfig=str(self._kubeconfig(name)),
                proxy_kubeconfig=str(proxy_kubeconfig),
                cni_plugins=str(self._binaries.cni_plugins),
                runc=str(self._binaries.debian / "usr" / "sbin" / "runc"),
                labels=shape.all_labels(),
                routes={_pods(other): via for other, via in addresses.items() if other != number},
                environment=self._binaries.environment,
            )
            self._nodes[name] = RealNode(settings, shape, self._group, self._binaries)
            _ip("route", "replace", _pods(number), "via", addresses[number])

    def _kubeconfig(self, name: str) -> Path:
        path = self._folder / f"{name}.kubeconfig"
        self._control_plane.write_kubeconfig(path, user=name, token=self._control_plane.node_token(name))
        return path

    def _allow_kube_proxy(self) -> None:
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "testbed:kube-proxy"},
            "roleRef": _role("system:node-proxier"),
            "subjects": [{"kind": "User", "name": "system:kube-proxy"}],
        }
        self.apply(binding)

    def _ready_names(self) -> set[str]:
        listed = json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]
        return {node["metadata"]["name"] for node in listed if _takes_pods(node)}


def _takes_pods(node: dict[str, Any]) -> bool:
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")


def _role(name: str) -> dict[str, str]:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}


def _pods(number: int) -> str:
    return f"10.244.{number}.0/24"


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NodeError(f"`ip {' '.join(arguments)}` ended with {done.returncode}: {done.stderr.strip()}")
