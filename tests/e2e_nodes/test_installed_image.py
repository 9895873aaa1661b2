"""Our image, installed with plain manifests in a namespace that enforces `restricted`, on real nodes.

The tests follow one installation from its start to its removal, in this order.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rescheduler.api.well_known_names import GUARD_WEBHOOK, STEERING_WEBHOOK
from rescheduler.cluster.sources.webhook_probe import probe_pod
from tests.e2e_nodes.conftest import IMAGE, Eventually
from tests.e2e_nodes.workloads import answers, deployment, names_of_pods, service
from tests.testbed import ControlPlane
from tests.testbed.nodes import Nodes

HOME = "rescheduler"
RATE, SECONDS = 100, 30
ARGS = {"reschedulingInterval": "5s", "settleTime": "1s", "usageSource": "requests", "minPodAge": "0s"}


def rescheduler(control_plane: ControlPlane, *arguments: str) -> str:
    """Run our command line as an administrator would, and return what it prints."""
    command = [str(Path(sys.executable).with_name("rescheduler")), *arguments]
    environment = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{arguments}: {done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def reference() -> str:
    """The name that the image's archive has."""
    listed = subprocess.run(["tar", "xOf", str(IMAGE), "index.json"], capture_output=True, check=True).stdout
    return str(json.loads(listed)["manifests"][0]["annotations"]["io.containerd.image.name"])


@pytest.fixture(scope="module")
def before(nodes: Nodes) -> set[str]:
    """Everything that is in the cluster before the installation."""
    return everything(nodes)


@pytest.fixture(scope="module", autouse=True)
def installed(
    control_plane: ControlPlane,
    nodes: Nodes,
    before: set[str],
    reference: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    nodes.import_image(IMAGE)
    values = tmp_path_factory.mktemp("values") / "values.yaml"
    repository, _, tag = reference.rpartition(":")
    image = {"repository": repository, "tag": tag, "pullPolicy": "Never"}
    values.write_text(yaml.safe_dump({"args": ARGS, "image": image}))
    nodes.kubectl("create", "namespace", HOME)
    for mode in ("enforce", "warn"):
        nodes.kubectl("label", "namespace", HOME, f"pod-security.kubernetes.io/{mode}=restricted")
    manifests = rescheduler(control_plane, "manifests", "--values", str(values))
    nodes.kubectl("apply", "--server-side", "-f", "-", stdin=manifests)
    yield
    nodes.kubectl("delete", "namespace", HOME, "--ignore-not-found", "--wait=false")


def everything(nodes: Nodes) -> set[str]:
    """The names of all objects of the kinds that rescheduler installs or makes."""
    kinds = (
        "namespaces,customresourcedefinitions,clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,"
        "deployments,services,configmaps,secrets,leases,poddisruptionbudgets,networkpolicies,"
        "mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,"
        "validatingadmissionpolicybindings"
    )
    listed = nodes.kubectl("get", kinds, "-A", "-o", "json")
    return {
        "/".join((item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]))
        for item in json.loads(listed)["items"]
        if not item["metadata"].get("namespace", "").startswith("test-")
        and not item["metadata"]["name"].startswith("test-")
    }


def leader(nodes: Nodes) -> str:
    lease = json.loads(nodes.kubectl("get", "lease", "-n", HOME, "rescheduler", "-o", "json"))
    return str(lease["spec"].get("holderIdentity") or "")


def test_daemon_and_webhook_become_ready(nodes: Nodes) -> None:
    """Two replicas of each, on different nodes, as nobody, without a shell."""
    for name in ("rescheduler", "rescheduler-webhook"):
        nodes.kubectl("rollout", "status", "-n", HOME, f"deployment/{name}", "--timeout=150s")
    pods = json.loads(nodes.kubectl("get", "pods", "-n", HOME, "-o", "json"))["items"]
    places: dict[str, set[str]] = {}
    for pod in pods:
        places.setdefault(pod["metadata"]["labels"]["app.kubernetes.io/component"], set()).add(
            pod["spec"]["nodeName"]
        )
    assert {len(found) for found in places.values()} == {2}, places
    name = pods[0]["metadata"]["name"]
    script = "import os; print(os.getuid())"
    assert nodes.kubectl("exec", "-n", HOME, name, "--", "python3.11", "-c", script).strip() == "65532"
    with pytest.raises(RuntimeError, match=r"no such file|not found"):
        nodes.kubectl("exec", "-n", HOME, name, "--", "sh", "-c", "true")


@pytest.mark.parametrize("webhook", [STEERING_WEBHOOK, GUARD_WEBHOOK])
def test_the_api_server_calls_the_webhook_through_its_service(
    webhook: str, nodes: Nodes, eventually: Eventually
) -> None:
    """It answers the probe that the daemon also uses: a pod that only the webhook refuses."""
    probe = json.dumps(probe_pod(HOME, webhook))

    def answer() -> str:
        try:
            return nodes.kubectl("create", "--dry-run=server", "-f", "-", stdin=probe)
        except RuntimeError as refusal:
            return str(refusal) if webhook in str(refusal) else ""

    eventually(lambda: webhook in answer())


def test_a_pod_moves_under_load_without_a_failed_request(
    control_plane: ControlPlane, nodes: Nodes, namespace: str, eventually: Eventually
) -> None:
    """One replica, new connections, a shutdown delay: `rescheduler move` loses nothing."""
    nodes.apply(deployment(namespace, "web", 1, "-shutdown-delay=5s"), service(namespace, "web"))
    ((pod, source),) = eventually(lambda: list(names_of_pods(nodes, namespace, "web").items()))
    address = json.loads(nodes.kubectl("get", "service", "-n", namespace, "web", "-o", "json"))["spec"][
        "clusterIP"
    ]
    sender = next(node for node in nodes if node.name != source)
    program = str(nodes.binaries.programs / "loadgen")
    eventually(lambda: answers(sender, nodes, address))
    sender.forget_connections()
    flags = [f"-url=http://{address}/", f"-rate={RATE}", f"-duration={SECONDS}s"]
    with subprocess.Popen(sender.command(program, *flags), stdout=subprocess.PIPE, text=True) as load:
        try:
            rescheduler(control_plane, "move", f"{namespace}/{pod}")
            out, _ = load.communicate(timeout=SECONDS + 30)
        finally:
            load.kill()
    found: dict[str, Any] = json.loads(out)
    (target,) = eventually(lambda: list(names_of_pods(nodes, namespace, "web").values()))
    assert target != source
    assert len(found["answeredBy"]) == 2, "the load ended before the move"
    assert (found["requests"], found["failed"]) == (RATE * SECONDS, 0), (found["errors"], found["seconds"])


def test_another_pod_leads_when_the_leader_is_gone(nodes: Nodes, eventually: Eventually) -> None:
    first = eventually(lambda: leader(nodes))
    pods = json.loads(nodes.kubectl("get", "pods", "-n", HOME, "-o", "json"))["items"]
    (name,) = (pod["metadata"]["name"] for pod in pods if pod["metadata"]["name"] in first)
    nodes.kubectl("delete", "pod", "-n", HOME, name, "--grace-period=0", "--force")
    eventually(lambda: leader(nodes) not in ("", first), timeout_s=60)


def test_uninstall_leaves_nothing(control_plane: ControlPlane, nodes: Nodes, before: set[str]) -> None:
    rescheduler(control_plane, "uninstall", "--yes", "--history")
    nodes.kubectl("delete", "namespace", HOME, "--timeout=120s")
    assert everything(nodes) - before == set()
