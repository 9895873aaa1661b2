"""The product as it is installed: objects of `rescheduler manifests`, their command lines and accounts.

The containers can't run here. Their command lines are read back from the API server and started as processes,
with the configuration that is in the ConfigMap, as the service accounts that the pods have.
"""

import asyncio
import contextlib
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME
from rescheduler.api.well_known_names import EMPTY_CONDITION, MAINTENANCE_LABEL
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import CONFIG_MAPS, DEPLOYMENTS, POD_DISRUPTION_BUDGETS, merge_patch
from rescheduler.kube.client import Client
from tests.e2e.permissions import DAEMON, WEBHOOK, kubeconfig_as
from tests.stories import objects
from tests.stories.sandbox import AT_ONCE, Sandbox, until_usable
from tests.testbed import ControlPlane, Part
from tests.testbed.options import QUICK

HOME = "rescheduler"
NODES_COUNT = 20
ARGS = {
    "reschedulingInterval": "1s",
    "enabledStrategies": ["NodeMaintenance", "LoadBalancing"],
    "settleTime": "100ms",
    "minPodAge": "0s",
    "usageSource": "requests",
    "maxConcurrentMigrations": 20,
    "maxConcurrentPerWorkload": 5,
    "maxReschedulePods": 50,
    "imbalanceThreshold": 10,
    "moveUnderZeroBudget": "always",
}

Eventually = Callable[..., Awaitable[Any]]


def command(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("rescheduler")), *arguments]


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> str:
    values = tmp_path_factory.mktemp("values") / "values.yaml"
    values.write_text(yaml.safe_dump({"args": ARGS, "image": {"tag": "test"}}))
    import subprocess  # noqa: PLC0415

    done = subprocess.run(
        command("manifests", "--create-namespace", "--values", str(values)),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory, manifests: str) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("installed"), QUICK) as started:
        # First what the others stand in, then all of it: a dry run makes neither namespace nor kind.
        definitions = "---\n".join(manifests.split("---\n")[:2])
        started.kubectl("apply", "--server-side", "-f", "-", stdin=definitions)
        started.kubectl(
            "wait", "--for=condition=Established", f"customresourcedefinition/{PODMIGRATION_CRD_NAME}"
        )
        started.kubectl(
            "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", stdin=manifests
        )
        started.kubectl("apply", "--server-side", "-f", "-", stdin=manifests)
        started.restart(Part.CONTROLLER_MANAGER)
        yield started


@contextlib.asynccontextmanager
async def program(
    client: Client, name: str, kubeconfig: Path, folder: Path, **changed: str
) -> AsyncIterator[None]:
    """The command line of its container, with what is another outside of a pod."""
    deployment = await client.get(DEPLOYMENTS, f"{HOME}/{name}")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    arguments = []
    for argument in container["args"]:
        option = argument.partition("=")[0]
        if option not in changed:
            arguments.append(argument)
        elif changed[option]:
            arguments.append(f"{option}={changed[option]}")
    more = [f"{option}={value}" for option, value in changed.items() if option not in str(container["args"])]
    with (folder / f"{name}.log").open("w") as log:
        process = await asyncio.create_subprocess_exec(
            *command(*arguments, *more, "--namespace", HOME, "--host", "127.0.0.1"),
            env={"KUBECONFIG": str(kubeconfig), "PATH": "/usr/bin"},
            stderr=log,
        )
        try:
            yield
            assert process.returncode is None, f"{name} has ended, see {log.name}"
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await asyncio.wait_for(process.wait(), 30)


@pytest.fixture
async def installed(
    client: Client, control_plane: ControlPlane, tmp_path: Path, unused_tcp_port_factory: Callable[[], int]
) -> AsyncIterator[None]:
    config = tmp_path / "rescheduler.yaml"
    data = (await client.get(CONFIG_MAPS, f"{HOME}/rescheduler"))["data"]
    config.write_text(data["rescheduler.yaml"])
    port = unused_tcp_port_factory()
    async with (
        program(
            client,
            "rescheduler-webhook",
            kubeconfig_as(control_plane, WEBHOOK, HOME, tmp_path, installed=True),
            tmp_path,
            **{
                "--config": str(config),
                "--service": "",
                "--url": f"https://127.0.0.1:{port}",
                "--port": str(port),
                "--extender-port": "0",
            },
        ),
        program(
            client,
            "rescheduler",
            kubeconfig_as(control_plane, DAEMON, HOME, tmp_path, installed=True),
            tmp_path,
            **{"--config": str(config), "--port": "0"},
        ),
    ):
        yield


async def test_a_cluster_of_twenty_nodes_is_balanced_a_node_emptied_and_all_removed_without_a_trace(
    client: Client,
    namespace: str,
    start_kubelet: Callable[..., Awaitable[Any]],
    eventually: Eventually,
    control_plane: ControlPlane,
    installed: None,
) -> None:
    kubelet = await start_kubelet({"pods": [AT_ONCE]}, nodes=NODES_COUNT)
    sandbox = Sandbox(client, namespace, kubelet, await until_usable(client, kubelet, NODES_COUNT))
    first, *others = sandbox.nodes
    for node in others[9:]:
        await sandbox.cordon(node)
    await client.create(
        DEPLOYMENTS, objects.deployment(namespace, "web", 40, objects.pod_spec(kubelet.name, cpu="700m"))
    )
    await client.create(POD_DISRUPTION_BUDGETS, objects.budget(namespace, "web", "web", maxUnavailable=0))
    await sandbox.until_ready(40, app="web")
    sandbox.behave({"startup": "1s", "termination": "0s"})
    for node in others[9:]:
        await sandbox.cordon(node, on=False)

    async def counts() -> Counter[str]:
        pods = (await client.list(PODS, namespace=namespace)).items
        found = Counter(pod.node for pod in pods if pod.is_ready and not pod.is_terminating)
        return Counter({node: found[node] for node in sandbox.nodes})

    async def is_balanced() -> bool:
        found = await counts()
        return sum(found.values()) == 40 and max(found.values()) - min(found.values()) <= 1

    await eventually(is_balanced, timeout_s=120)

    async def is_told(status: str | None) -> bool:
        found = (await client.get(NODES, first)).condition(EMPTY_CONDITION)
        return (found.status if found is not None else None) == status

    await client.patch(NODES, first, merge_patch({"metadata": {"labels": {MAINTENANCE_LABEL: "true"}}}))
    await eventually(lambda: is_told("True"), timeout_s=120)
    assert (await counts())[first] == 0
    assert (await client.get(NODES, first)).unschedulable
    await client.patch(NODES, first, merge_patch({"metadata": {"labels": {MAINTENANCE_LABEL: None}}}))
    await eventually(lambda: is_told(None))

    async def is_back() -> bool:
        return not (await client.get(NODES, first)).unschedulable

    await eventually(is_back)
    # Once more: what is told again is counted, not written anew.
    await client.patch(NODES, first, merge_patch({"metadata": {"labels": {MAINTENANCE_LABEL: "true"}}}))
    await eventually(lambda: is_told("True"), timeout_s=120)
    await client.patch(NODES, first, merge_patch({"metadata": {"labels": {MAINTENANCE_LABEL: None}}}))
    await eventually(lambda: is_told(None))
    await eventually(is_back)

    async def is_quiet() -> bool:
        items = (await client.list(POD_MIGRATIONS)).items
        return all((item.get("status") or {}).get("finishedAt") for item in items)

    await eventually(is_quiet)


@pytest.mark.full
async def test_uninstall_leaves_nothing_behind(client: Client, control_plane: ControlPlane) -> None:
    """After all that the other test has had it do."""
    kubeconfig = {"KUBECONFIG": str(control_plane.kubeconfig), "PATH": "/usr/bin"}
    process = await asyncio.create_subprocess_exec(
        *command("uninstall", "--yes", "--history"), env=kubeconfig, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    listed = json.loads(
        control_plane.kubectl("get", "nodes,pods,deployments,replicasets", "-A", "-o", "json")
    )
    for item in listed["items"]:
        metadata = item["metadata"]
        if metadata.get("namespace") == HOME:
            continue  # on its way out, with its namespace
        ours = [
            name for part in ("labels", "annotations") for name in metadata.get(part, {}) if _is_ours(name)
        ]
        assert ours == [], f"{item['kind']} {metadata['name']}"


def _is_ours(name: str) -> bool:
    return name.startswith(("rescheduler.dev/", "scheduler.alpha.kubernetes.io/migrat", MAINTENANCE_LABEL))
