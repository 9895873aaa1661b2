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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from rescheduler.api.migration_journal import HISTORY_CONFIG_MAP, decode_journal
from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME
from rescheduler.api.well_known_names import EMPTY_CONDITION, MAINTENANCE_LABEL
from rescheduler.cli import main
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.daemon.own_objects import read_state
from rescheduler.kube.api_resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    LEASES,
    POD_DISRUPTION_BUDGETS,
    merge_patch,
)
from rescheduler.kube.client import Client
from tests.e2e.permissions import DAEMON, WEBHOOK, kubeconfig_as
from tests.stories import objects
from tests.stories.sandbox import AT_ONCE, Sandbox, until_usable
from tests.testbed import ControlPlane, Part
from tests.testbed.options import QUICK
from tests.testbed.readiness import until

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
        started.wait_until_served(PODMIGRATION_CRD_NAME)
        started.kubectl(
            "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", stdin=manifests
        )
        started.kubectl("apply", "--server-side", "-f", "-", stdin=manifests)
        started.restart(Part.CONTROLLER_MANAGER)
        yield started


def _end_of(log: str) -> str:
    return Path(log).read_text()[-2000:]


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
            assert process.returncode is None, f"{name} has ended:\n{_end_of(log.name)}"
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await asyncio.wait_for(process.wait(), 30)


@pytest.fixture
async def installed(
    client: Client, control_plane: ControlPlane, tmp_path: Path, unused_tcp_port_factory: Callable[[], int]
) -> AsyncIterator[Path]:
    """Yield the configuration file, as it is installed: a dry run."""
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
            **{"--config": str(config), "--port": "0", "--web-port": "0"},
        ),
    ):
        yield config


async def test_twenty_nodes_with_a_fresh_installation(
    client: Client,
    namespace: str,
    start_kubelet: Callable[..., Awaitable[Any]],
    eventually: Eventually,
    control_plane: ControlPlane,
    installed: Path,
) -> None:
    """The plan is only reported at first; then the cluster is balanced, and a node is drained."""
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

    async def shows_what_it_would_move() -> bool:
        status = (await read_state(client, HOME))[1]
        return status is not None and status.dry_run is not None and status.dry_run.moves > 0

    # As installed, it only counts: the other Lease is free, and nothing moves.
    await eventually(shows_what_it_would_move)
    assert (await client.list(POD_MIGRATIONS)).items == []
    leases = [item["metadata"]["name"] for item in (await client.list(LEASES, namespace=HOME)).items]
    assert leases == ["rescheduler-dry-run"]
    _execute(installed)

    async def counts() -> Counter[str]:
        pods = (await client.list(PODS, namespace=namespace)).items
        found = Counter(pod.node for pod in pods if pod.is_ready and not pod.is_terminating)
        return Counter({node: found[node] for node in sandbox.nodes})

    async def is_balanced() -> bool:
        found = await counts()
        return sum(found.values()) == 40 and max(found.values()) - min(found.values()) <= 1

    await eventually(is_balanced, timeout_s=120)

    async def is_reported(status: str | None) -> bool:
        found = (await client.get(NODES, first)).condition(EMPTY_CONDITION)
        return (found.status if found is not None else None) == status

    await client.patch(NODES, first, merge_patch({"metadata": {"labels": {MAINTENANCE_LABEL: "true"}}}))
    await eventually(lambda: is_reported("True"), timeout_s=120)
    assert (await counts())[first] == 0
    assert (await client.get(NODES, first)).unschedulable
    await client.patch(NODES, first, merge_patch({"metadata": {"labels": {MAINTENANCE_LABEL: None}}}))
    await eventually(lambda: is_reported(None))

    async def is_back() -> bool:
        return not (await client.get(NODES, first)).unschedulable

    await eventually(is_back)
    # Once more: a repeated Event is counted, not created again.
    await client.patch(NODES, first, merge_patch({"metadata": {"labels": {MAINTENANCE_LABEL: "true"}}}))
    await eventually(lambda: is_reported("True"), timeout_s=120)
    await client.patch(NODES, first, merge_patch({"metadata": {"labels": {MAINTENANCE_LABEL: None}}}))
    await eventually(lambda: is_reported(None))
    await eventually(is_back)

    async def is_quiet() -> bool:
        items = (await client.list(POD_MIGRATIONS)).items
        return all((item.get("status") or {}).get("finishedAt") for item in items)

    await eventually(is_quiet)

    async def is_in_the_journal() -> bool:
        """As the installed account, under the installed policies."""
        moved = {item["metadata"]["uid"] for item in (await client.list(POD_MIGRATIONS)).items}
        found = (
            await client.list(CONFIG_MAPS, namespace=HOME, fields=f"metadata.name={HISTORY_CONFIG_MAP}")
        ).items
        return bool(found) and moved <= {
            entry.uid for entry in decode_journal(found[0]["data"], datetime.now(UTC))
        }

    await eventually(is_in_the_journal)


def _execute(config: Path) -> None:
    text = config.read_text()
    assert "dryRun: true" in text
    config.write_text(text.replace("dryRun: true", "dryRun: false"))


def as_person(control_plane: ControlPlane, role: str, folder: Path) -> Path:
    """Return a kubeconfig of a user who has this role of ours, and nothing else."""
    user = f"{role}-user"
    control_plane.kubectl(
        "create", "clusterrolebinding", user, f"--clusterrole=rescheduler-{role}.{HOME}", f"--user={user}"
    )
    control_plane.kubectl(
        "create", "rolebinding", user, "-n", HOME, f"--role=rescheduler-{role}", f"--user={user}"
    )
    return _kubeconfig_of(control_plane, user, folder / f"{role}.kubeconfig")


def _kubeconfig_of(control_plane: ControlPlane, user: str, path: Path) -> Path:
    content = yaml.safe_load(control_plane.kubeconfig.read_text())
    for each in content["users"]:
        each["user"]["as"] = user
    path.touch(mode=0o600)
    path.write_text(json.dumps(content))
    return path


async def test_each_command_works_with_the_role_that_the_docs_name(
    client: Client,
    namespace: str,
    start_kubelet: Callable[..., Awaitable[Any]],
    control_plane: ControlPlane,
    installed: Path,
    eventually: Eventually,
    tmp_path: Path,
) -> None:
    """docs/permissions.md: viewers see all and change nothing; operators move, drain, cancel and pause."""
    _execute(installed)

    async def leads() -> bool:
        items = (await client.list(LEASES, namespace=HOME, fields="metadata.name=rescheduler")).items
        return bool(items and items[0]["spec"].get("holderIdentity"))

    await eventually(leads)
    # Of a copy and a surplus pod that is ready as soon as it is created, the ReplicaSet may remove the copy.
    kubelet = await start_kubelet({"pods": [{"startup": "3s", "termination": "0s"}]}, nodes=2)
    sandbox = Sandbox(client, namespace, kubelet, await until_usable(client, kubelet, 2))
    first, second = sandbox.nodes
    await client.create(
        DEPLOYMENTS, objects.deployment(namespace, "app", 2, objects.pod_spec(kubelet.name, cpu="100m"))
    )
    pods = await sandbox.until_ready(2, app="app")
    source = pods[0]
    pod = f"{namespace}/{source['metadata']['name']}"
    target = second if pods[0]["spec"]["nodeName"] == first else first
    people = {role: as_person(control_plane, role, tmp_path) for role in ("viewer", "operator")}

    async def run(role: str, *arguments: str) -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            *command(*arguments),
            env={"KUBECONFIG": str(people[role]), "PATH": "/usr/bin"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await asyncio.wait_for(process.communicate(), 90)
        return process.returncode, out.decode()

    looks = [
        ("status",),
        ("plan",),
        ("explain", "pod", pod),
        ("explain", "node", first),
        ("migrations",),
        ("history",),
    ]
    asked = [(role, arguments) for role in people for arguments in looks]
    answers = await asyncio.gather(*(run(role, *arguments) for role, arguments in asked))
    for question, (code, out) in zip(asked, answers, strict=True):
        assert code in {0, 3}, (question, out)
        assert "cannot" not in out, (question, out)
    assert "probing the webhook needs permission to create pods" in answers[0][1], answers[0]
    refused = [("move", pod, "--to", target), ("drain", first), ("pause",)]
    answers = await asyncio.gather(*(run("viewer", *arguments) for arguments in refused))
    for arguments, (code, out) in zip(refused, answers, strict=True):
        assert code == 1, (arguments, out)
        assert "forbidden" in out.lower() or "cannot" in out, (arguments, out)
    for arguments in (
        ("move", pod, "--to", target),
        ("undo", "--since", "10m", "-n", namespace, "--yes"),
        # By the daemon's configuration: the pods are young.
        ("drain", first, "--config", str(installed)),
        ("undrain", first),
        ("pause", "--why", "a test"),
        ("resume",),
    ):
        code, out = await run("operator", *arguments)
        assert code == 0, (arguments, out)


@pytest.fixture(scope="module", params=["view", "edit", "admin"])
def tenant(
    request: pytest.FixtureRequest, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """Yield a namespace, and a kubeconfig of a user who has only this role of Kubernetes in it."""
    role = request.param
    namespace = f"team-{role}"
    control_plane.kubectl("create", "namespace", namespace)
    control_plane.kubectl(
        "create", "rolebinding", namespace, "-n", namespace, f"--clusterrole={role}", f"--user={namespace}"
    )
    migration = {
        "apiVersion": "rescheduler.dev/v1alpha1",
        "kind": "PodMigration",
        "metadata": {"namespace": namespace, "name": "web-1"},
        "spec": {
            "pod": {"name": "web-1", "uid": "1"},
            "sourceNode": "node-1",
            "strategy": "Manual",
            "handover": "Evict",
        },
    }
    control_plane.kubectl("create", "-f", "-", stdin=json.dumps(migration))
    yield namespace, _kubeconfig_of(control_plane, namespace, tmp_path_factory.mktemp("tenant") / "config")
    control_plane.kubectl("delete", "podmigration", "web-1", "-n", namespace)
    control_plane.kubectl("delete", "namespace", namespace, "--wait=false")


def test_users_of_a_namespace_see_its_migrations_and_change_none(
    tenant: tuple[str, Path], control_plane: ControlPlane
) -> None:
    """docs/permissions.md: `view`, `edit` and `admin` of a namespace read its PodMigrations, and no more.

    A user who could create or delete them would move pods with the daemon's permissions.
    """
    namespace, kubeconfig = tenant
    attributes = {"group": "rescheduler.dev", "resource": "podmigrations"}
    asked = [
        (where, subresource, verb)
        for where in (namespace, "default")
        for subresource in ("", "status")
        for verb in ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
    ]
    reviews = [
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": namespace,
                "resourceAttributes": {
                    **attributes,
                    "namespace": where,
                    "subresource": subresource,
                    "verb": verb,
                },
            },
        }
        for where, subresource, verb in asked
    ]
    content = json.dumps({"apiVersion": "v1", "kind": "List", "items": reviews})

    def may() -> set[tuple[str, ...]]:
        answers = control_plane.kubectl(
            "create", "-f", "-", "-o", "jsonpath={.status.allowed} ", stdin=content
        ).split()
        return {each for each, answer in zip(asked, answers, strict=True) if answer == "true"}

    reading = {(namespace, "", verb) for verb in ("get", "list", "watch")}
    until(lambda: may() == reading, 30)  # the controller manager aggregates the role
    assert may() == reading

    def rescheduler(*arguments: str) -> Result:
        return CliRunner().invoke(main, [*arguments, "--kubeconfig", str(kubeconfig)])

    for arguments in (
        ("migrations", "-n", namespace),
        ("migrations", "web-1", "-n", namespace),
        ("migrations", "-n", namespace, "-o", "name"),
        ("history", "-n", namespace),
        ("status", "-n", HOME),
        ("version",),
    ):
        done = rescheduler(*arguments)
        assert done.exit_code == 0, (arguments, done.output)
        assert "web-1" in done.stdout or arguments[0] != "migrations", (arguments, done.output)
    refused = {
        ("migrations",): "list podmigrations.rescheduler.dev",
        ("migrations", "-n", "default"): "list podmigrations.rescheduler.dev",
        ("history",): "list podmigrations.rescheduler.dev",
        ("migrations", "web-1", "-n", namespace, "--cancel"): "cluster scope",
        ("migrations", "--resume"): "list podmigrations.rescheduler.dev",
        ("plan",): "cannot list resource",
        ("explain", "pod", f"{namespace}/web-1"): "cannot list resource",
        ("move", f"{namespace}/web-1", "--yes"): "list podmigrations.rescheduler.dev",
        ("drain", "node-1"): "list podmigrations.rescheduler.dev",
        ("undrain", "node-1"): "get nodes",
        ("apply", "--yes"): "list podmigrations.rescheduler.dev",
        ("undo", "--since", "1h", "--yes"): "list podmigrations.rescheduler.dev",
        ("pause", "-n", HOME): "patch configmaps",
        ("resume", "-n", HOME): "patch configmaps",
        ("uninstall", "--yes", "-n", HOME): "forbidden",
    }
    for arguments, why in refused.items():
        done = rescheduler(*arguments)
        assert done.exit_code == 1, (arguments, done.output)
        assert why in done.stderr, (arguments, done.output)
    listed = control_plane.kubectl("get", "podmigrations", "-A", "-o", "name").split()
    assert "podmigration.rescheduler.dev/web-1" in listed


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
