"""The daemon's web page on a real API server: tokens, permissions, and a move as the logged-in user."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from rescheduler.kube.api_resources import DEPLOYMENTS
from rescheduler.kube.client import Client
from tests.e2e.daemon.conftest import Run
from tests.stories import objects
from tests.stories.sandbox import AT_ONCE
from tests.testbed import ControlPlane
from tests.unit.web.conftest import Browser

Eventually = Callable[..., Awaitable[Any]]


def add_viewer(control_plane: ControlPlane, namespace: str) -> None:
    """A ServiceAccount that may list pods and move them in this namespace, and list nodes."""

    def create(*arguments: str) -> None:
        control_plane.kubectl("-n", namespace, "create", *arguments)

    create("serviceaccount", "viewer")
    create("role", "pods", "--verb=list", "--resource=pods,events")
    create("role", "moves", "--verb=create,delete", "--resource=podmigrations.rescheduler.dev")
    create("clusterrole", f"nodes-{namespace}", "--verb=list", "--resource=nodes")
    for role in ("pods", "moves"):
        create("rolebinding", role, f"--role={role}", f"--serviceaccount={namespace}:viewer")
    create(
        "clusterrolebinding",
        f"nodes-{namespace}",
        f"--clusterrole=nodes-{namespace}",
        f"--serviceaccount={namespace}:viewer",
    )


async def test_a_viewer_moves_a_pod_with_their_own_permissions(
    control_plane: ControlPlane,
    client: Client,
    namespace: str,
    start_kubelet: Callable[..., Awaitable[Any]],
    run: Run,
    eventually: Eventually,
) -> None:
    """The API server checks the token and every permission, and its audit log names the viewer."""
    kubelet = await start_kubelet({"pods": [AT_ONCE]}, nodes=2)
    spec = objects.pod_spec(kubelet.name, cpu="100m")
    await client.create(DEPLOYMENTS, objects.deployment(namespace, "web", 1, spec))
    await asyncio.to_thread(add_viewer, control_plane, namespace)
    token = control_plane.kubectl("-n", namespace, "create", "token", "viewer").strip()
    bound = control_plane.kubectl(
        "-n", namespace, "create", "token", "viewer", "--audience=rescheduler"
    ).strip()
    replica = await run("--web", "--web-port=0", "--web-allow-actions")
    await replica.until_said("Leading")
    (served,) = replica.said("PageServed")
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        browser = Browser(http, f"http://127.0.0.1:{served['port']}")
        assert (await browser.login("no token of this cluster"))[0] == 401
        status, session = await browser.login(bound)
        assert (status, session["actions"]) == (200, {})
        status, session = await browser.login(token)
        assert (status, session["user"]) == (200, f"system:serviceaccount:{namespace}:viewer")
        assert session["namespaces"] == [namespace]
        assert {name for name, may in session["actions"].items() if may} == {"move", "apply", "cancel"}

        async def ready() -> Any:
            return [pod for pod in (await browser.get("pods"))["pods"] if pod["ready"]]

        (pod,) = await eventually(ready)
        names = (await browser.get("cluster"))["nodes"]["names"]
        target = next(name for name in names if name.startswith(kubelet.name) and name != pod["node"])
        preview = await browser.post("actions/preview", {"kind": "move", "pod": pod["pod"], "node": target})
        assert preview["refused"] == []
        result = await browser.post("actions/confirm", {"confirmation": preview["confirmation"]})

        async def completed() -> Any:
            detail = await browser.get(f"migrations/{result['migrations'][0]}")
            return detail if detail["migration"]["phase"] == "Completed" else None

        detail = await eventually(completed)
        assert detail["migration"]["to"] == target
        assert any(entry["source"] == "event" for entry in detail["timeline"])
    assert token not in str(replica.said("LoggedIn"))
    created = {
        (event.get("impersonatedUser") or event["user"])["username"]
        for event in control_plane.audited()
        if event["verb"] == "create"
        and event.get("objectRef", {}).get("resource") == "podmigrations"
        and event["objectRef"].get("namespace") == namespace
    }
    assert created == {f"system:serviceaccount:{namespace}:viewer"}
