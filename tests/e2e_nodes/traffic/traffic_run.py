"""Runs one case: load through the ClusterIP while the application's pod is removed, and what clients saw."""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e_nodes.installation import HOME, Installation
from tests.e2e_nodes.traffic.traffic_cases import App, Case, Load
from tests.e2e_nodes.workloads import answers, cluster_ip, deployment, names_of_pods, service, stateful_set
from tests.testbed.cache import cache_root
from tests.testbed.nodes import Nodes, RealNode
from tests.testbed.readiness import until

__all__ = ["Deployed", "deployed", "descheduler_program", "run_case"]

_AROUND_S = 1.5
"""How long load runs before and after."""
_LONGEST_S = 150
_BLOCKED_AFTER_S = 15
_DELAY_ANNOTATION = "rescheduler.dev/shutdown-delay"


@dataclass
class Deployed:
    """The application under load, in a namespace of its own."""

    installation: Installation
    app: App
    namespace: str
    address: str = ""

    @property
    def nodes(self) -> Nodes:
        return self.installation.nodes

    def places(self) -> dict[str, str]:
        """The node of each pod that is ready."""
        return names_of_pods(self.nodes, self.namespace, "web")

    def wait_settled(self) -> None:
        """Return when as many pods as wanted are ready, and no other is left."""

        def is_settled() -> bool:
            listed = self.nodes.kubectl("get", "pods", "-n", self.namespace, "-l", "app=web", "-o", "name")
            return len(listed.split()) == self.app.replicas == len(self.places())

        _await(is_settled, 120, f"{self.namespace} has {self.app.replicas} ready pods")

    def any_pod(self) -> tuple[str, str]:
        """A pod and its node."""
        return min(self.places().items())


@contextlib.contextmanager
def deployed(installation: Installation, app: App, namespace: str) -> Iterator[Deployed]:
    nodes = installation.nodes
    nodes.kubectl("create", "namespace", namespace)
    try:
        own_delay = 0 if app.injected else app.delay_s
        flags = [f"-start={app.start_s}s", f"-shutdown-delay={own_delay}s"]
        workload = (stateful_set if app.stateful else deployment)(namespace, "web", app.replicas, *flags)
        if app.injected:
            workload["metadata"]["annotations"] = {_DELAY_ANNOTATION: f"{app.delay_s}s"}
        objects = [workload, service(namespace, "web")]
        if app.budget:
            objects.append(_budget(namespace, max(1, app.replicas - 1)))
        nodes.apply(*objects)
        found = Deployed(installation, app, namespace)
        found.wait_settled()
        found.address = cluster_ip(nodes, namespace, "web")
        yield found
    finally:
        nodes.kubectl("delete", "namespace", namespace, "--wait=false")


def run_case(case: Case, on: Deployed) -> dict[str, Any]:
    """Return what clients saw, and how long it took."""
    on.wait_settled()
    on.installation.wait_ready()  # a drain may have moved its pods, too
    _await(lambda: bool(on.installation.leader()), 60, "a daemon leads")
    with _safe_evictions(case, on):
        return _measured(case, on)


@contextlib.contextmanager
def _safe_evictions(case: Case, on: Deployed) -> Iterator[None]:
    """Annotate the namespace well before the eviction: the webhook learns of it by a watch."""
    if "safe evictions" not in case.row:
        yield
        return
    on.nodes.kubectl("annotate", "namespace", on.namespace, "rescheduler.dev/safe-evictions=auto")
    try:
        yield
    finally:
        on.nodes.kubectl("annotate", "namespace", on.namespace, "rescheduler.dev/safe-evictions-")


def _measured(case: Case, on: Deployed) -> dict[str, Any]:
    sender = _sender(case, on)
    _await(lambda: answers(sender, on.nodes, on.address), 30, f"{on.address} answers on {sender.name}")
    sender.forget_connections(on.address)
    with _load(case.load, sender, on) as load:
        time.sleep(_AROUND_S)  # load before is part of what is measured, as is load afterwards
        began = time.monotonic()
        outcome = _DISRUPTIONS[case.row](on)
        on.wait_settled()
        took = time.monotonic() - began
        time.sleep(_AROUND_S)
        found = load()
    return {
        "row": case.row,
        "app": case.app.__dict__,
        "load": case.load.__dict__,
        "outcome": outcome,
        "tookS": round(took, 1),
        **{name: value for name, value in found.items() if name != "answeredBy"},
        "pods": len(found["answeredBy"]),
    }


@contextlib.contextmanager
def _load(load: Load, sender: RealNode, on: Deployed) -> Iterator[Callable[[], dict[str, Any]]]:
    """Send requests until the yielded function is called, which returns the result."""
    target = f"{on.address}:9090" if load.protocol == "grpc" else f"http://{on.address}/"
    flags = [f"-url={target}", f"-rate={load.rate}", f"-duration={_LONGEST_S}s", f"-protocol={load.protocol}"]
    # As long as a browser is patient: on a busy machine slow answers are not lost ones.
    flags += ["-timeout=20s", *(["-keep-alive"] if load.keep_alive else [])]
    command = sender.command(str(on.nodes.binaries.programs / "loadgen"), *flags)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:

        def end() -> dict[str, Any]:
            # The whole group: nsenter doesn't pass signals on.
            os.killpg(process.pid, signal.SIGTERM)
            out, _ = process.communicate(timeout=60)
            result: dict[str, Any] = json.loads(out)
            return result

        try:
            yield end
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _sender(case: Case, on: Deployed) -> RealNode:
    """A node without a pod of the application, if there is one; never the one that will be killed."""
    if "node killed" in case.row:
        return on.nodes[on.any_pod()[1]]
    used = set(on.places().values())
    return next((node for node in on.nodes if node.name not in used and node.alive()), list(on.nodes)[-1])


# -- the ways to remove a pod. Each returns how it ended.


def _delete(on: Deployed) -> str:
    on.nodes.kubectl("delete", "pod", "-n", on.namespace, on.any_pod()[0])
    return "done"


def _rollout_restart(on: Deployed) -> str:
    kind = "statefulset" if on.app.stateful else "deployment"
    on.nodes.kubectl("rollout", "restart", "-n", on.namespace, f"{kind}/web")
    on.nodes.kubectl("rollout", "status", "-n", on.namespace, f"{kind}/web", "--timeout=120s")
    return "done"


def _kubectl_drain(on: Deployed, timeout_s: int = _BLOCKED_AFTER_S) -> str:
    _, node = on.any_pod()
    chosen = ["--ignore-daemonsets", "--pod-selector=app=web", f"--timeout={timeout_s}s"]
    try:
        on.nodes.kubectl("drain", node, *chosen)
    except RuntimeError as error:
        if "timeout reached" not in str(error):
            raise
        return f"blocked by the budget for {timeout_s} s"
    finally:
        on.nodes.kubectl("uncordon", node)
    return "done"


def descheduler_program() -> Path | None:
    """The real descheduler, if it has been built (tests/testbed/build.py)."""
    return next(iter(cache_root().with_name("peers").glob("*/bin/descheduler")), None)


def _descheduler(on: Deployed) -> str:
    """Let it evict one pod, for its age; it runs once."""
    program = descheduler_program()
    assert program is not None
    age = {"maxPodLifeTimeSeconds": 1, "namespaces": {"include": [on.namespace]}}
    profile = {
        "name": "traffic",
        "pluginConfig": [{"name": "DefaultEvictor"}, {"name": "PodLifeTime", "args": age}],
        "plugins": {"deschedule": {"enabled": ["PodLifeTime"]}},
    }
    policy = {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "maxNoOfPodsToEvictPerNamespace": 1,
        "profiles": [profile],
    }
    name, _ = on.any_pod()
    file = on.installation.folder / "descheduler.json"
    file.write_text(json.dumps(policy))
    command = [str(program), f"--kubeconfig={on.installation.control_plane.kubeconfig}"]
    command += [f"--policy-config-file={file}", "--descheduling-interval=0", "--secure-port=0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    _await(lambda: len(on.places()) < on.app.replicas or name not in on.places(), 30, "it evicts a pod")
    return "done"


def _karpenter_evictions(on: Deployed) -> str:
    """Taint the node and evict the pod as Karpenter does: a refused eviction is repeated after 0.1 to 10 s.

    Karpenter itself needs a provider that can make such nodes, which no cloudless provider can.
    """
    name, node = on.any_pod()
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": on.namespace},
    }
    path = f"/api/v1/namespaces/{on.namespace}/pods/{name}/eviction"
    wait_s, until_s = 0.1, time.monotonic() + 120
    on.nodes.kubectl("taint", "node", node, "karpenter.sh/disrupted:NoSchedule")
    try:
        while time.monotonic() < until_s:
            try:
                on.nodes.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
            except RuntimeError as error:
                if "NotFound" in str(error):
                    return "done"
                if "TooManyRequests" not in str(error):
                    raise
            time.sleep(wait_s)  # the retries of the program that this stands for
            wait_s = min(2 * wait_s, 10)
    finally:
        on.nodes.kubectl("taint", "node", node, "karpenter.sh/disrupted-")
    raise TimeoutError(f"{name} is still there after 120 s")


def _safe_drain(on: Deployed) -> str:
    return _kubectl_drain(on, 120)


def _move(on: Deployed) -> str:
    on.installation.rescheduler("move", f"{on.namespace}/{on.any_pod()[0]}")
    return "done"


def _rescheduler_drain(on: Deployed) -> str:
    name, node = on.any_pod()
    try:
        # Pods of kube-system may stay, which the exit code tells.
        said = on.installation.rescheduler("drain", node, expected=(0, 1))
        assert name not in on.places(), f"{name} is still on {node}: {said}"
        return "done"
    finally:
        on.installation.rescheduler("undrain", node)


def _balancing(on: Deployed) -> str:
    """Load the pod's node with a pod that can't leave it, and wait until the daemon moves ours."""
    name, node = on.any_pod()
    pinned = {"nodeSelector": {"kubernetes.io/hostname": node}}
    ballast = deployment(on.namespace, "ballast", 1, **pinned)
    _requests(ballast, "900m")
    on.nodes.apply(ballast)
    try:
        _await(lambda: name not in on.places(), 120, f"the daemon moves {name} off {node}")
    finally:
        on.nodes.kubectl("delete", "deployment", "-n", on.namespace, "ballast")
    return "done"


def _leader_killed(on: Deployed) -> str:
    """Kill the leader's pod, without a grace period, as soon as the copy exists."""

    def kill() -> None:
        if until(lambda: _pod_count(on) > on.app.replicas, 60):
            leader = on.installation.leading_pod()
            on.nodes.kubectl("delete", "pod", "-n", HOME, leader, "--grace-period=0", "--force")

    return _move_during(on, kill)


def _target_killed(on: Deployed) -> str:
    """Kill the node of the copy before the copy is ready; it comes back when the move is rolled back.

    While a third of the nodes is not Ready, nothing new starts: the move is tried again afterwards.
    """
    _, source = on.any_pod()

    def target() -> str:
        return next((node for node in _all_places(on) if node and node != source), "")

    def kill() -> None:
        if not until(lambda: bool(target()), 60):
            return
        node = on.nodes[target()]
        node.kill()
        try:
            on.nodes.route_services()
            until(lambda: _is_rolled_back(on, node.name), 120)
        finally:
            node.start()
            on.nodes.route_services()

    return _move_during(on, kill)


def _move_during(on: Deployed, disturb: Callable[[], None]) -> str:
    """Move a pod while `disturb` runs in another thread; return when the cluster is ready again."""
    disturbing = threading.Thread(target=disturb)
    disturbing.start()
    try:
        return _move(on)
    finally:
        disturbing.join()
        on.nodes.wait_ready()
        on.installation.wait_ready()


def _is_rolled_back(on: Deployed, node: str) -> bool:
    """Whether the copy on that node is deleted; it can't be gone while its kubelet is."""
    listed = json.loads(on.nodes.kubectl("get", "pods", "-n", on.namespace, "-l", "app=web", "-o", "json"))
    return any(
        pod["spec"].get("nodeName") == node and "deletionTimestamp" in pod["metadata"]
        for pod in listed["items"]
    )


_DISRUPTIONS: dict[str, Callable[[Deployed], str]] = {
    "kubectl delete pod": _delete,
    "kubectl drain": _kubectl_drain,
    "kubectl rollout restart": _rollout_restart,
    "descheduler": _descheduler,
    "Karpenter's evictions": _karpenter_evictions,
    "Karpenter's evictions, safe evictions": _karpenter_evictions,
    "kubectl drain, safe evictions": _safe_drain,
    "rescheduler move": _move,
    "rescheduler drain": _rescheduler_drain,
    "rescheduler balancing": _balancing,
    "rescheduler move, leader killed": _leader_killed,
    "rescheduler move, target node killed": _target_killed,
}


def _pod_count(on: Deployed) -> int:
    return len(_all_places(on))


def _all_places(on: Deployed) -> list[str]:
    listed = json.loads(on.nodes.kubectl("get", "pods", "-n", on.namespace, "-l", "app=web", "-o", "json"))
    return [pod["spec"].get("nodeName", "") for pod in listed["items"]]


def _requests(workload: dict[str, Any], cpu: str) -> None:
    workload["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu


def _budget(namespace: str, least: int) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}},
    }


def _await(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    if not until(condition, timeout_s):
        raise TimeoutError(f"not so within {timeout_s:g} s: {what}")
