"""Our image, installed as the docs say, on real nodes: with plain manifests, and with Helm.

The tests of each installation follow it from its start to its removal, in this order.
"""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from rescheduler.api.well_known_names import GUARD_WEBHOOK, STEERING_WEBHOOK
from rescheduler.cluster.sources.live_source import probe_pod
from tests.e2e_nodes.conftest import Eventually
from tests.e2e_nodes.installation import CHART, HOME, Installation
from tests.e2e_nodes.workloads import answers, cluster_ip, deployment, names_of_pods, service
from tests.testbed import ControlPlane
from tests.testbed.nodes import Nodes

RATE, SECONDS = 100, 30
ARGS = {"reschedulingInterval": "5s", "settleTime": "1s", "usageSource": "requests", "minPodAge": "0s"}
MANIFESTS, HELM = "manifests", "helm"


def only(way: str) -> pytest.MarkDecorator:
    """Once is enough: it doesn't depend on how rescheduler was installed."""
    return pytest.mark.parametrize("way", [way], indirect=True, scope="module")


@pytest.fixture(scope="module", params=[MANIFESTS, HELM])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def installation(
    control_plane: ControlPlane, nodes: Nodes, tmp_path_factory: pytest.TempPathFactory
) -> Installation:
    return Installation(control_plane, nodes, tmp_path_factory.mktemp("values"))


@pytest.fixture(scope="module", autouse=True)
def before(way: str, installation: Installation) -> Iterator[set[str]]:
    """Everything that was in the cluster before rescheduler was installed in this way."""
    found = installation.everything()
    installation.prepare()
    values = installation.values(ARGS)
    if way == HELM:
        print(installation.helm("install", "rescheduler", str(CHART), "--values", str(values)))
    else:
        installation.apply_manifests(values)
    yield found
    installation.nodes.kubectl("delete", "namespace", HOME, "--ignore-not-found", "--wait=false")


def test_daemon_and_webhook_become_ready(installation: Installation) -> None:
    """Two replicas of each, on different nodes, as an unprivileged user, without a shell."""
    installation.wait_ready()
    pods = installation.pods()
    places: dict[str, set[str]] = {}
    for pod in pods:
        component = pod["metadata"]["labels"]["app.kubernetes.io/component"]
        places.setdefault(component, set()).add(pod["spec"]["nodeName"])
    assert {len(found) for found in places.values()} == {2}, places
    name = pods[0]["metadata"]["name"]
    script = "import os; print(os.getuid())"
    kubectl = installation.nodes.kubectl
    assert kubectl("exec", "-n", HOME, name, "--", "python3.11", "-c", script).strip() == "65532"
    with pytest.raises(RuntimeError, match=r"no such file|not found"):
        kubectl("exec", "-n", HOME, name, "--", "sh", "-c", "true")
    policies = json.loads(kubectl("get", "networkpolicies", "-n", HOME, "-o", "json"))["items"]
    assert {each["metadata"]["name"] for each in policies} == {"rescheduler", "rescheduler-webhook"}


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


@only(MANIFESTS)
def test_a_pod_moves_under_load_without_a_failed_request(
    installation: Installation, nodes: Nodes, namespace: str, eventually: Eventually
) -> None:
    """One replica, new connections, a delay that an annotation asks for: `rescheduler move` loses nothing."""
    web = deployment(namespace, "web", 1)
    web["metadata"]["annotations"] = {"rescheduler.dev/shutdown-delay": "5s"}
    nodes.apply(web, service(namespace, "web"))
    ((pod, source),) = eventually(lambda: list(names_of_pods(nodes, namespace, "web").items()))
    address = cluster_ip(nodes, namespace, "web")
    sender = next(node for node in nodes if node.name != source)
    program = str(nodes.binaries.programs / "loadgen")
    eventually(lambda: answers(sender, nodes, address))
    sender.forget_connections(address)
    flags = [f"-url=http://{address}/", f"-rate={RATE}", f"-duration={SECONDS}s"]
    with subprocess.Popen(sender.command(program, *flags), stdout=subprocess.PIPE, text=True) as load:
        try:
            installation.rescheduler("move", f"{namespace}/{pod}")
            out, _ = load.communicate(timeout=SECONDS + 30)
        finally:
            load.kill()
    found: dict[str, Any] = json.loads(out)
    (target,) = eventually(lambda: list(names_of_pods(nodes, namespace, "web").values()))
    assert target != source
    assert len(found["answeredBy"]) == 2, "the load ended before the move"
    assert (found["requests"], found["failed"]) == (RATE * SECONDS, 0), (found["errors"], found["seconds"])


@only(MANIFESTS)
def test_another_pod_leads_when_the_leader_is_gone(
    installation: Installation, eventually: Eventually
) -> None:
    first = eventually(installation.leader)
    installation.nodes.kubectl(
        "delete", "pod", "-n", HOME, installation.leading_pod(), "--grace-period=0", "--force"
    )
    eventually(lambda: installation.leader() not in ("", first), timeout_s=60)


@only(HELM)
def test_an_upgrade_loses_no_move_that_runs(
    installation: Installation, nodes: Nodes, namespace: str, eventually: Eventually
) -> None:
    """Daemon and webhook are rolled out again while three pods move: all of them arrive."""
    nodes.apply(*(deployment(namespace, f"web-{number}", 1, "-start=5s") for number in range(3)))

    def places() -> dict[str, str]:
        return {
            name: node
            for number in range(3)
            for name, node in names_of_pods(nodes, namespace, f"web-{number}").items()
        }

    sources = eventually(lambda: places() if len(places()) == 3 else {}, timeout_s=150)
    listed = json.loads(nodes.kubectl("get", "pods", "-n", namespace, "-o", "json"))["items"]
    nodes.apply(*map(_migration, listed))
    _all_in_phase(nodes, namespace, eventually, "InProgress", "Completed")
    values = installation.values(ARGS, logLevel="debug")
    installation.helm("upgrade", "rescheduler", str(CHART), "--values", str(values))
    installation.wait_ready()
    _all_in_phase(nodes, namespace, eventually, "Completed")
    moved = places()
    assert len(moved) == 3
    assert not sources.keys() & moved.keys()


def test_removal_leaves_nothing(way: str, installation: Installation, before: set[str]) -> None:
    """Helm keeps the definition, which holds the history; `rescheduler uninstall` removes that, too."""
    if way == HELM:
        installation.helm("uninstall", "rescheduler", "--wait")
        left = {name for name in installation.everything() - before if f"/{HOME}/" not in name}
        definition = "CustomResourceDefinition//podmigrations.rescheduler.dev"
        assert left == {f"Namespace//{HOME}", definition}
    installation.rescheduler("uninstall", "--yes", "--history", "--namespace", HOME)
    installation.nodes.kubectl("delete", "namespace", HOME, "--timeout=120s")
    assert installation.everything() - before == set()


def _migration(pod: dict[str, Any]) -> dict[str, Any]:
    """What `rescheduler move` would create, without waiting for it."""
    about = pod["metadata"]
    return {
        "apiVersion": "rescheduler.dev/v1alpha1",
        "kind": "PodMigration",
        "metadata": {"name": f"move-{about['name']}", "namespace": about["namespace"]},
        "spec": {
            "pod": {"name": about["name"], "uid": about["uid"]},
            "sourceNode": pod["spec"]["nodeName"],
            "strategy": "Manual",
            "reason": "an upgrade is tested",
        },
    }


def _all_in_phase(nodes: Nodes, namespace: str, eventually: Eventually, *phases: str) -> None:
    def found() -> list[str]:
        listed = json.loads(nodes.kubectl("get", "pmig", "-n", namespace, "-o", "json"))["items"]
        return [item.get("status", {}).get("phase", "") for item in listed]

    eventually(lambda: len(found()) == 3 and set(found()) <= set(phases), timeout_s=120)
