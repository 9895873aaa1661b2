"""`rescheduler uninstall` on a real control plane removes all that was installed, and nothing of others."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import DEPLOYMENTS, MUTATING_WEBHOOKS
from rescheduler.kube.client import Client
from tests.e2e.installed.commands import Done, apply_manifests, objects_of_others, rescheduler
from tests.stories import objects
from tests.stories.sandbox import AT_ONCE
from tests.testbed import ControlPlane
from tests.testbed.options import QUICK

Eventually = Callable[..., Awaitable[Any]]
Play = Callable[..., Awaitable[Any]]

GENERIC = "app.kubernetes.io/name=rescheduler"
AGGREGATED = {"ClusterRole /view", "ClusterRole /edit", "ClusterRole /admin"}


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("removal"), QUICK) as started:
        yield started


@pytest.fixture
def uninstall(control_plane: ControlPlane) -> Callable[..., Done]:
    def run(*arguments: str, kubeconfig: Path | None = None) -> Done:
        return rescheduler(
            "uninstall", "--yes", *arguments, kubeconfig=kubeconfig or control_plane.kubeconfig
        )

    return run


@pytest.fixture
async def platform(
    client: Client, control_plane: ControlPlane, start_kubelet: Play, eventually: Eventually
) -> AsyncIterator[str]:
    """A namespace in use, with unrelated objects that carry the generic label, there and elsewhere."""
    kubelet = await start_kubelet({"pods": [AT_ONCE]}, nodes=2)
    name = f"platform-{kubelet.name}"

    async def kubectl(*arguments: str) -> None:
        await asyncio.to_thread(control_plane.kubectl, *arguments)

    await kubectl("create", "namespace", name)
    await kubectl("label", "namespace", name, "team=core")
    await kubectl("create", "secret", "generic", "password", "-n", name, "--from-literal=a=b")
    await kubectl("label", "secret", "password", "-n", name, GENERIC, "rescheduler.dev/install-id=" + name)
    await kubectl("create", "configmap", "password", "-n", "default")
    await kubectl("label", "configmap", "password", "-n", "default", GENERIC)
    await kubectl("create", "clusterrole", "auditor", "--verb=get", "--resource=pods")
    await kubectl("label", "clusterrole", "auditor", GENERIC)
    spec = objects.pod_spec(kubelet.name, cpu="100m")
    await client.create(DEPLOYMENTS, objects.deployment(name, "billing", 1, spec))

    async def is_quiet() -> bool:
        # In threads: the kubelets of this test run in the event loop, and their nodes must stay Ready.
        deployment = await client.get(DEPLOYMENTS, f"{name}/billing")
        seen = await asyncio.to_thread(objects_of_others, control_plane)
        await asyncio.sleep(0.5)  # twice the same is what quiet means
        is_ready = deployment.get("status", {}).get("availableReplicas") == 1
        return is_ready and seen == await asyncio.to_thread(objects_of_others, control_plane)

    await eventually(is_quiet)
    yield name
    for kind, *where in (("clusterrole", "auditor"), ("configmap", "password", "-n", "default")):
        await kubectl("delete", kind, *where)
    await kubectl("delete", "namespace", name, "--wait=false")


def changes(before: dict[str, tuple[str, str]], after: dict[str, tuple[str, str]]) -> dict[str, Any]:
    names = before.keys() | after.keys()
    return {
        name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)
    }


async def test_installing_into_a_namespace_in_use(
    control_plane: ControlPlane, platform: str, uninstall: Callable[..., Done], eventually: Eventually
) -> None:
    """Installing and uninstalling touch nothing else there.

    Kubernetes itself adds one rule to its roles for users: a user who may view a namespace sees its moves.
    """
    before = await asyncio.to_thread(objects_of_others, control_plane)

    async def changed() -> dict[str, Any]:
        after = changes(before, await asyncio.to_thread(objects_of_others, control_plane))
        return {name: found for name, found in after.items() if found[0] is not None}

    await asyncio.to_thread(apply_manifests, control_plane, "--namespace", platform)

    async def is_aggregated() -> bool:
        return (await changed()).keys() >= AGGREGATED

    await eventually(is_aggregated)
    aggregated = await changed()
    assert aggregated.keys() == AGGREGATED, "installing changes nothing else that was there"
    for was, is_now in aggregated.values():
        (added,) = [rule for rule in json.loads(is_now[1]) if rule not in json.loads(was[1])]
        assert (added["apiGroups"], added["resources"]) == (["rescheduler.dev"], ["podmigrations"])
        assert sorted(added["verbs"]) == ["get", "list", "watch"]
    done = await asyncio.to_thread(uninstall, "--history")
    assert done.returncode == 0, done.stdout + done.stderr

    async def is_aggregated_no_more() -> bool:
        return not (await changed()).keys() & AGGREGATED

    await eventually(is_aggregated_no_more)
    assert changes(before, await asyncio.to_thread(objects_of_others, control_plane)) == {}


async def test_nor_does_asking_for_a_namespace_that_is_there_already_let_it_be_deleted(
    client: Client, control_plane: ControlPlane, platform: str, uninstall: Callable[..., Done]
) -> None:
    control_plane.kubectl("create", "namespace", "spare")
    await asyncio.sleep(2)  # the server records whole seconds: later than its creation
    await asyncio.to_thread(apply_manifests, control_plane, "--namespace", "spare", "--create-namespace")
    labels = json.loads(control_plane.kubectl("get", "namespace", "spare", "-o", "json"))["metadata"][
        "labels"
    ]
    assert not any(name.startswith("pod-security") for name in labels)
    done = await asyncio.to_thread(uninstall, "--history")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Namespace spare stays: it was not created with rescheduler" in done.stderr
    control_plane.kubectl("delete", "namespace", "spare", "--wait=false")


async def test_a_namespace_that_came_with_the_manifests_goes_when_nothing_else_is_in_it(
    client: Client, control_plane: ControlPlane, eventually: Eventually, uninstall: Callable[..., Done]
) -> None:
    await asyncio.to_thread(apply_manifests, control_plane, "--namespace", "own", "--create-namespace")
    control_plane.kubectl("create", "configmap", "notes", "-n", "own")
    kept = await asyncio.to_thread(uninstall)
    assert kept.returncode == 0, kept.stdout + kept.stderr
    assert "Namespace own stays: it also contains ConfigMap notes." in kept.stderr
    control_plane.kubectl("delete", "configmap", "notes", "-n", "own")
    gone = await asyncio.to_thread(uninstall, "-n", "own", "--history")
    assert gone.returncode == 0, gone.stdout + gone.stderr
    assert "Namespace own: installed" in gone.stdout

    async def is_gone() -> bool:
        return "own" not in control_plane.kubectl("get", "namespaces", "-o", "name")

    await eventually(is_gone)


async def test_of_two_installations_one_goes_and_the_other_keeps_working(
    control_plane: ControlPlane, uninstall: Callable[..., Done]
) -> None:
    for name in ("one", "two"):
        await asyncio.to_thread(apply_manifests, control_plane, "--namespace", name, "--create-namespace")

    def may(namespace: str) -> str:
        account = f"system:serviceaccount:{namespace}:rescheduler"
        with contextlib.suppress(RuntimeError):  # kubectl exits with 1 for "no"
            return control_plane.kubectl("auth", "can-i", "patch", "nodes", f"--as={account}").strip()
        return "no"

    assert (may("one"), may("two")) == ("yes", "yes")
    unclear = await asyncio.to_thread(uninstall)
    assert unclear.returncode == 1
    assert "several namespaces: one, two" in unclear.stderr
    done = await asyncio.to_thread(uninstall, "-n", "two", "--history")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "also installed in namespace one" in done.stderr
    assert (may("one"), may("two")) == ("yes", "no")
    listed = control_plane.kubectl("get", "deployments,services,configmaps,roles", "-n", "one", "-o", "name")
    for name in ("deployment.apps/rescheduler", "service/rescheduler", "configmap/rescheduler"):
        assert name in listed.split()
    assert "podmigrations" in control_plane.kubectl("get", "customresourcedefinitions", "-o", "name")
    last = await asyncio.to_thread(uninstall, "--history")
    assert last.returncode == 0, last.stdout + last.stderr
    assert "podmigrations" not in control_plane.kubectl("get", "customresourcedefinitions", "-o", "name")


@pytest.mark.full
async def test_a_webhook_that_is_still_terminating_can_not_register_again(
    client: Client,
    control_plane: ControlPlane,
    start_kubelet: Play,
    eventually: Eventually,
    uninstall: Callable[..., Done],
    tmp_path: Path,
    unused_tcp_port: int,
) -> None:
    """The real webhook goes on for some seconds, as in a pod that is told to end."""
    await start_kubelet({"pods": [{"startup": "0s", "termination": "20s"}]}, nodes=2)
    await asyncio.to_thread(apply_manifests, control_plane, "--namespace", "hooked", "--create-namespace")
    await ready(client, "hooked/rescheduler-webhook", eventually)
    arguments = ["--namespace", "hooked", "--host", "127.0.0.1", "--port", str(unused_tcp_port)]
    arguments += ["--extender-port", "0"]
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("rescheduler")), "webhook", *arguments,
        env={**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)},
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        await eventually(lambda: is_trusted(client, "hooked"))

        async def ends_in_its_grace_period() -> None:
            await eventually(lambda: all_terminating(client, "hooked"), timeout_s=240)
            process.terminate()  # which it takes its time for, but it ends before its pod is gone

        ending = asyncio.create_task(ends_in_its_grace_period())
        done = await asyncio.to_thread(uninstall, "--history")
        await ending
        await asyncio.wait_for(process.wait(), 30)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    assert done.returncode == 0, done.stdout + done.stderr
    with pytest.raises(errors.NotFound):
        await client.get(MUTATING_WEBHOOKS, "rescheduler.hooked")


async def ready(client: Client, deployment: str, eventually: Eventually) -> None:
    async def is_available() -> bool:
        status = (await client.get(DEPLOYMENTS, deployment)).get("status", {})
        return bool(status.get("availableReplicas") == 2)

    await eventually(is_available)


async def is_trusted(client: Client, namespace: str) -> bool:
    """Whether the webhook has written its authority into the registration that was installed."""
    found = await client.get(MUTATING_WEBHOOKS, f"rescheduler.{namespace}")
    return "caBundle" in found["webhooks"][0]["clientConfig"]


async def all_terminating(client: Client, namespace: str) -> bool:
    pods = await client.list(PODS, namespace=namespace, labels="app.kubernetes.io/component=webhook")
    return all(pod.is_terminating for pod in pods.items)


async def test_a_user_without_all_permissions_sees_what_remains(
    control_plane: ControlPlane, uninstall: Callable[..., Done], tmp_path: Path
) -> None:
    """An administrator of the namespace only."""
    await asyncio.to_thread(apply_manifests, control_plane, "--namespace", "limited", "--create-namespace")
    control_plane.kubectl(
        "create", "rolebinding", "ada", "-n", "limited", "--clusterrole=admin", "--user=ada"
    )
    kubeconfig = impersonating(control_plane, "ada", tmp_path)
    unknown = await asyncio.to_thread(uninstall, kubeconfig=kubeconfig)
    assert unknown.returncode == 1
    assert "can't find out where rescheduler is installed" in unknown.stderr
    assert "--namespace" in unknown.stderr
    partly = await asyncio.to_thread(uninstall, "-n", "limited", "--force", kubeconfig=kubeconfig)
    assert partly.returncode == 1
    for name in ("ClusterRole rescheduler.limited", "ClusterRoleBinding rescheduler.limited"):
        assert f"can't read {name}" in partly.stderr
    left = control_plane.kubectl("get", "deployments,services,configmaps", "-n", "limited", "-o", "name")
    assert "rescheduler" not in left
    rest = await asyncio.to_thread(uninstall, "--history")
    assert rest.returncode == 0, rest.stdout + rest.stderr


def impersonating(control_plane: ControlPlane, user: str, folder: Path) -> Path:
    import yaml  # noqa: PLC0415

    content = yaml.safe_load(control_plane.kubeconfig.read_text())
    for each in content["users"]:
        each["user"]["as"] = user
        each["user"]["as-groups"] = ["system:authenticated"]
    path = folder / f"{user}.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(json.dumps(content))
    return path
