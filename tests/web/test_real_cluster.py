"""The daemon's page on a real control plane: real tokens, real permissions, every view with real objects."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from rescheduler.api.podmigration_crd import podmigration_crd
from tests.e2e.daemon.processes import write_config
from tests.e2e.daemon.test_web_page import add_viewer
from tests.e2e.permissions import DAEMON, kubeconfig_as
from tests.stories import objects
from tests.stories.real_cluster import install_definitions
from tests.testbed import ControlPlane
from tests.web.conftest import Findings, PageServer, PageUser, open_movable_pod

pytestmark = pytest.mark.control_plane

HOME, SHOP, NODES = "rescheduler", "shop", "page"
Kubectl = Callable[..., str]


@contextlib.contextmanager
def process(log: Path, *command: str | Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that must not end before the body does; its log says why if it ends."""
    with log.open("wb") as stderr:
        started = subprocess.Popen(
            [str(each) for each in command],
            env={"PATH": "/usr/bin:/bin", **environment},
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
    try:
        yield started
        assert started.poll() is None, f"{command[1:3]} has ended:\n{log.read_text()[-4000:]}"
    finally:
        started.terminate()
        started.wait(timeout=30)


def port_of_page(daemon: subprocess.Popen[bytes], log: Path) -> int:
    """Wait until the daemon has read the cluster, and return the port on which it serves the page."""
    deadline = time.monotonic() + 60
    while True:
        lines = log.read_text().splitlines(keepends=True)
        events = {line["event"]: line for line in (json.loads(each) for each in lines if each[-1] == "\n")}
        if {"PageServed", "Started"} <= events.keys():
            return int(events["PageServed"]["port"])
        has_failed = daemon.poll() is not None or time.monotonic() > deadline
        assert not has_failed, f"the daemon does not serve the page:\n{''.join(lines)}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def cluster(
    shared_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kubectl]:
    """Three nodes, of which one has most of the pods, and what is in another namespace."""
    plane, folder = shared_control_plane, tmp_path_factory.mktemp("page")
    install_definitions(plane, [podmigration_crd()])
    for name in (HOME, SHOP, "vault"):
        plane.kubectl("create", "namespace", name)
    behaviour = folder / "behaviour.json"
    behaviour.write_text(json.dumps({"pods": [{"startup": "1s", "termination": "0s"}]}))
    kubelet = (sys.executable, "-m", "tests.testbed.fake_kubelet", "--kubeconfig", plane.kubeconfig)
    shape = ("--nodes", "3", "--prefix", NODES, "--name", NODES, "--scenario", behaviour)
    with process(folder / "kubelet.log", *kubelet, *shape):
        plane.kubectl("wait", "--for=create", f"node/{NODES}-0001", "--timeout=60s")
        apply = lambda item: plane.kubectl("apply", "-f", "-", stdin=json.dumps(item))  # noqa: E731
        pinned: dict[str, Any] = {"nodeName": f"{NODES}-0001"}
        spec = objects.pod_spec(NODES, cpu="400m")
        apply(objects.deployment("vault", "secrets", 2, spec))
        apply(objects.pod(SHOP, "lonely", {**spec, **pinned}))
        apply(objects.deployment(SHOP, "web", 12, spec))
        plane.kubectl("rollout", "status", "-n", SHOP, "deployment/web", "--timeout=120s")
        add_viewer(plane, SHOP)
        yield plane.kubectl


@pytest.fixture(scope="module")
def daemon(
    cluster: Kubectl, shared_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PageServer]:
    """`rescheduler run --web` as the account that is installed, and with its permissions only."""
    folder = tmp_path_factory.mktemp("daemon")
    log = folder / "daemon.log"
    account = kubeconfig_as(shared_control_plane, DAEMON, HOME, folder)
    config = write_config(folder / "config.json", imbalanceThreshold=90)
    program = Path(sys.executable).with_name("rescheduler")
    options = ("--namespace", HOME, "--config", config, "--host", "127.0.0.1", "--port", "0")
    page = ("--web", "--web-port=0", "--web-allow-actions")
    with process(log, program, "run", *options, *page, KUBECONFIG=str(account)) as started:
        port = port_of_page(started, log)
        yield PageServer("control plane", port=port, link=f"http://127.0.0.1:{port}/")


def log_in(page: Page, token: str) -> None:
    page.get_by_label("Bearer token").fill(token)
    page.get_by_role("button", name="Log in").click()


def token_of(kubectl: Kubectl, account: str, namespace: str = SHOP) -> str:
    return kubectl("-n", namespace, "create", "token", account).strip()


def visit(user: PageUser, server: PageServer, route: str) -> Page:
    user.expected = ("net::ERR", "503", "403", "404")
    page = user.visit(server, route)
    expect(page.locator("h1")).to_have_text("Log in")
    return page


def test_views(cluster: Kubectl, daemon: PageServer, user: PageUser, findings: Findings) -> None:
    """An administrator sees every view with the objects of the real cluster."""
    cluster("-n", HOME, "create", "serviceaccount", "admin")
    bound = ("--clusterrole=cluster-admin", f"--serviceaccount={HOME}:admin")
    cluster("create", "clusterrolebinding", "page-admin", *bound)
    page = visit(user, daemon, "cluster?as=table")
    log_in(page, token_of(cluster, "admin", HOME))
    expect(page.locator("tbody tr", has_text=f"{NODES}-")).to_have_count(3)
    expect(page.locator(".answers")).to_contain_text("nodes ready")
    assert findings(page) == []
    page.set_viewport_size({"width": 1600, "height": 1000})
    page.goto(daemon.address(f"cluster/{NODES}-0001"))
    expect(page.locator(".panel")).to_contain_text("shop/lonely")
    expect(page.locator(".panel")).to_contain_text("kubelet is posting ready status")
    page.goto(daemon.address("what-if"))
    page.get_by_label("Spread limit").fill("1")
    expect(page.locator(".what-if-plan")).to_contain_text("cpu")
    page.goto(daemon.address("why/shop/lonely"))
    expect(page.locator(".why-word")).to_have_text("May move")
    expect(page.locator(".why-answer")).to_contain_text("Handover Copy")
    expect(page.locator(".matrix")).to_contain_text("AlreadyHere")
    for route, heading in (("plan", "Plan"), ("moves", "Moves")):
        page.goto(daemon.address(route))
        expect(page.locator("h1")).to_have_text(heading)
        assert findings(page) == []


def test_permissions(cluster: Kubectl, daemon: PageServer, user: PageUser) -> None:
    """A viewer of one namespace moves a pod there with their own token, and sees nothing of another one."""
    page = visit(user, daemon, "why/shop/lonely")
    log_in(page, token_of(cluster, "viewer"))
    page.get_by_role("button", name="Move this pod").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("pre")).to_contain_text(f"system:serviceaccount:{SHOP}:viewer")
    dialog.get_by_role("button", name="Move this pod").click()
    dialog.locator("a").first.click()
    panel = page.locator(".panel")
    expect(panel).to_contain_text("Completed", timeout=90_000)
    expect(panel.locator(".timeline li.event").first).to_be_visible()
    page.goto(daemon.address("why/vault/any"))
    expect(page.locator("main")).to_contain_text("not found")
    for route in ("cluster", f"cluster/{NODES}-0001", f"cluster/{NODES}-0002", "plan", "moves", "what-if"):
        page.goto(daemon.address(route))
        page.wait_for_load_state()
        assert "vault" not in page.inner_text("body"), route
    expect(page.get_by_role("button", name="Drain", exact=True)).to_have_count(0)


def until_refused(kubectl: Kubectl, token: str) -> None:
    """Wait until the API server does not accept the token: it remembers valid ones for ten seconds."""
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
    review = json.dumps({**kind, "spec": {"token": token}})
    deadline = time.monotonic() + 60
    while "true" in kubectl("create", "-f", "-", "-o", "jsonpath={.status.authenticated}", stdin=review):
        assert time.monotonic() < deadline, "the token is still valid"
        time.sleep(0.5)


def test_revoked_token(cluster: Kubectl, daemon: PageServer, user: PageUser) -> None:
    """With the account, its token ends: the API server refuses what the page would do with it."""
    cluster("-n", SHOP, "create", "serviceaccount", "leaver")
    bound = ("--role=moves", f"--serviceaccount={SHOP}:leaver")
    cluster("-n", SHOP, "create", "rolebinding", "leaver", *bound)
    bound = ("--role=pods", f"--serviceaccount={SHOP}:leaver")
    cluster("-n", SHOP, "create", "rolebinding", "leaver-pods", *bound)
    page = visit(user, daemon, "why")
    user.expected = (*user.expected, "401", "409")
    token = token_of(cluster, "leaver")
    log_in(page, token)
    open_movable_pod(page, "shop/web")
    cluster("-n", SHOP, "delete", "serviceaccount", "leaver")
    until_refused(cluster, token)
    page.get_by_role("button", name="Move this pod").click()
    page.get_by_role("dialog").get_by_role("button", name="Move this pod").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_be_visible()
    assert "leaver" not in cluster("get", "pmig", "-n", SHOP, "-o", "json")
