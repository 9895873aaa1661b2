"""A running simulated cluster with the daemon: moves, failures, actions, and a server that stops."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.testbed.cache import Binaries, cache_folder
from tests.web.conftest import Findings, PageServer, PageUser, open_movable_pod
from tests.web.page_servers import READY_LABEL

Servers = Callable[[str], PageServer]


@pytest.fixture
def shop() -> Iterator[PageServer]:
    """A server of its own: moves begin when it starts."""
    server = PageServer("shop")
    server.start()
    yield server
    server.stop()


def kubectl_command(server: PageServer, *arguments: str) -> list[str]:
    return [
        str(Binaries(cache_folder() / "bin").folder / "kubectl"),
        "--kubeconfig",
        server.kubeconfig,
        *arguments,
    ]


def kubectl_started(server: PageServer, *arguments: str) -> subprocess.Popen[bytes]:
    command = kubectl_command(server, *arguments)
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def rows(page: Page, title: str) -> Locator:
    """Return the rows of the section with that title."""
    heading = page.get_by_role("heading", name=title)
    return page.locator("main section.section", has=heading).locator("tbody tr")


def kubectl(server: PageServer, *arguments: str, content: object = None) -> subprocess.CompletedProcess[str]:
    command = kubectl_command(server, *arguments)
    text = None if content is None else json.dumps(content)
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)


def let_moves_go_on(server: PageServer, page: Page, is_done: Callable[[], bool]) -> None:
    """Let new pods get ready, one move after the other, until the condition is true."""
    label = ("label", "pods", "--all-namespaces", "--all", "--overwrite", f"{READY_LABEL}=true")
    for _ in range(300):
        if is_done():
            return
        assert kubectl(server, *label).returncode == 0
        page.wait_for_timeout(200)
    raise AssertionError("the moves did not end")


def test_move_to_its_end(shop: PageServer, user: PageUser, findings: Findings) -> None:
    """A move appears by itself, passes its steps, and ends in the history with what it cost."""
    page = user.visit(shop, "cluster", motion="no-preference")
    expect(page.locator(".load-legend")).to_contain_text("running move", timeout=60_000)
    page.goto(shop.address("moves"))
    expect(page.locator(".steps").first).to_be_visible(timeout=60_000)
    completed = page.locator("tbody td", has_text="Completed")
    let_moves_go_on(shop, page, lambda: completed.count() > 0)
    expect(page.locator(".figures")).to_contain_text("With plain eviction")
    page.locator("table", has_text="Result").locator("tbody a").first.click()
    expect(page.locator(".timeline li")).not_to_have_count(0)
    expect(page.locator(".panel")).to_contain_text("Completed")
    expect(page.locator(".timeline li.event").first).to_contain_text("MigrationStarted Event")
    link = page.url
    assert findings(page) == []
    page.goto(link)  # as another user would, who got the link
    page.reload()
    expect(page.locator(".panel .timeline li")).not_to_have_count(0)


def test_trouble(server_of: Servers, user: PageUser, findings: Findings) -> None:
    """Failing pods with their tries, maintenance with what stays, balance over time."""
    page = user.visit(server_of("trouble"))
    wrong = page.locator(".answer").nth(2)
    expect(wrong.locator(".answer-word")).to_have_text(
        re.compile(r"^\d (failing pods?|problems)$"), timeout=90_000
    )
    wrong.get_by_role("link").click()

    expect(rows(page, "Failing pods").first).to_contain_text(re.compile(r"worker-\d.*\d of 3"))
    expect(rows(page, "Nodes in maintenance").first).to_contain_text("export", timeout=60_000)
    balance = page.locator("figure", has_text="cpu").first
    balance.get_by_role("button", name="Table").click()
    expect(balance.locator("tbody tr").nth(1)).to_be_visible()
    assert findings(page) == []
    page.goto(server_of("trouble").address("cluster/worker-4"))
    expect(page.locator(".panel figure")).to_contain_text("Load over time")


def test_evictions_by_others(server_of: Servers, user: PageUser) -> None:
    """`kubectl drain` and others evict: the pod is moved make-before-break, and the page says for whom."""
    server = server_of("calm")
    listed = kubectl(server, "get", "pods", "-n", "shop", "-l", "app=checkout", "-o", "name")
    name = listed.stdout.strip().partition("/")[2]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": "shop", "name": name},
    }
    page = user.visit(server, "moves")
    answer = kubectl(
        server,
        "create",
        "--raw",
        f"/api/v1/namespaces/shop/pods/{name}/eviction",
        "-f",
        "-",
        content=eviction,
    )
    assert "evictions.rescheduler.dev" in answer.stderr, answer
    row = page.locator("tbody tr", has_text=name)
    expect(row.first).to_contain_text("Eviction")
    page.get_by_label("Strategy").select_option("Eviction", timeout=60_000)
    expect(page.locator("table", has_text="Result").locator("tbody tr")).to_contain_text(
        "Completed", timeout=60_000
    )
    page.locator("table", has_text="Result").locator("tbody a").first.click()
    expect(page.locator(".panel dl")).to_contain_text("evict")


def test_drain_by_others(server_of: Servers, user: PageUser) -> None:
    """`kubectl drain` in progress: which node, how many pods have moved, and what remains, to its end."""
    server = server_of("held")
    page = user.visit(server, "moves")
    expect(page.locator("h1")).to_have_text("Moves")
    drain = kubectl_started(server, "drain", "worker-1", "--ignore-daemonsets", "--delete-emptydir-data")
    try:
        row = rows(page, "Nodes being drained by other clients").filter(has_text="worker-1")
        expect(row).to_contain_text(re.compile(r"\d moving, \d moved"))
        page.goto(server.address("cluster/worker-1"))
        expect(page.locator(".panel")).to_contain_text("Drained by another client")
        let_moves_go_on(server, page, lambda: drain.poll() is not None)
        assert drain.returncode == 0
    finally:
        drain.kill()
        drain.wait()
        kubectl(server, "uncordon", "worker-1")
    page.goto(server.address("moves"))
    expect(row).to_have_count(0)


def test_room_for_a_pending_pod(server_of: Servers, user: PageUser, findings: Findings) -> None:
    """A pod that fits nowhere: on which node room is kept for it, until the scheduler places it there."""
    page = user.visit(server_of("rooms"), "moves")
    pending = rows(page, "Pending pods")
    expect(pending).to_contain_text(
        re.compile(r"ml/train.*kept while pods leave \(\d of \d done\): worker-\d")
    )
    expect(pending).to_contain_text("Insufficient cpu")
    node = pending.locator(".node-link").inner_text()
    assert findings(page) == []
    page.goto(server_of("rooms").address(f"cluster/{node}"))
    expect(page.locator(".answers")).to_contain_text("1 pending pod")
    expect(page.locator(".panel")).to_contain_text("Room is kept here for ml/train")
    pods = page.locator(".panel").get_by_role("table", name="Pods of the node")
    let_moves_go_on(server_of("rooms"), page, lambda: "ml/train-" in pods.inner_text())
    page.goto(server_of("rooms").address("moves"))
    expect(pending).to_have_count(0)
    expect(page.locator("table", has_text="Result").locator("tbody tr").first).to_contain_text("MakeRoom")


def test_cancelled_move(server_of: Servers, user: PageUser) -> None:
    """A running move is cancelled from its row: the preview names it, and the pod stays where it was."""
    user.expected = ("404",)  # its panel is open when the PodMigration goes
    server = server_of("held")
    page = user.visit(server, "why")
    open_movable_pod(page, "shop/search")
    page.get_by_role("button", name="Move this pod").click()
    page.get_by_role("dialog").get_by_role("button", name="Move this pod").click()
    link = page.get_by_role("dialog").locator("a").first
    key = link.inner_text()
    link.click()
    expect(page.locator(".panel .timeline")).to_be_visible()
    page.set_viewport_size({"width": 1024, "height": 768})  # the panel leaves little room for the table
    frames = page.locator(".page .table-scroll")
    expect(frames.first).to_be_visible()
    assert frames.evaluate_all("all => all.filter(each => each.scrollWidth > each.clientWidth).length") == 0
    page.get_by_role("button", name="Cancel move").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("summary")).to_contain_text(key)
    dialog.get_by_role("button", name="Cancel move").click()
    expect(dialog.locator("[role=status]")).not_to_be_empty()
    dialog.get_by_role("button", name="Close").click()
    expect(page.locator("main")).to_contain_text("No move is running", timeout=60_000)


def test_drain(server_of: Servers, user: PageUser) -> None:
    """A node is drained from its panel: the patch is previewed, its pods leave, and it returns."""
    server = server_of("calm")
    page = user.visit(server, "cluster/worker-6")
    page.locator(".panel").get_by_role("button", name="Drain", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("pre").first).to_contain_text("maintenance")
    dialog.get_by_role("button", name="Drain", exact=True).click()
    expect(dialog.locator("[role=status]")).not_to_be_empty()
    dialog.get_by_role("button", name="Close").click()
    expect(page.locator(".panel")).to_contain_text("Cordoned", timeout=30_000)
    expect(page.locator(".panel")).to_contain_text("1 pod", timeout=90_000)  # that of the DaemonSet
    page.locator(".panel").get_by_role("button", name="End maintenance").click()
    dialog.get_by_role("button", name="End maintenance").click()
    dialog.get_by_role("button", name="Close").click()
    expect(page.locator(".panel")).not_to_contain_text("Cordoned", timeout=30_000)


def test_pause(server_of: Servers, user: PageUser, findings: Findings) -> None:
    """Pausing shows the exact request before it is made; afterwards the page says that it is paused."""
    page = user.visit(server_of("calm"), "moves")
    page.get_by_role("button", name="Pause moves").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("request to the API server")
    expect(dialog.locator("pre")).to_contain_text("pause")
    assert findings(page) == []
    dialog.get_by_role("button", name="Pause moves").click()
    expect(dialog.locator("[role=status]")).not_to_be_empty()
    dialog.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Resume moves").click(timeout=30_000)
    dialog.get_by_role("button", name="Resume moves").click()
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_role("button", name="Pause moves")).to_be_visible(timeout=30_000)


def test_restarted_server(shop: PageServer, user: PageUser) -> None:
    """Without its server the page says so and keeps what it has; with a new one, the new link logs in."""
    user.expected = ("net::ERR", "401", "503", "EventSource")
    page = user.visit(shop)
    expect(page.locator(".connection")).to_have_text("Live")
    shop.stop()
    expect(page.locator(".banner")).to_contain_text("Connection lost", timeout=30_000)
    expect(page.locator(".answers")).to_be_visible()
    shop.start()
    expect(page.locator("h1")).to_have_text("Log in", timeout=60_000)
    page.goto(shop.link)
    expect(page.locator(".connection")).to_have_text(re.compile("Live"), timeout=30_000)


def test_wrong_secret(server_of: Servers, user: PageUser) -> None:
    """A wrong link logs no user in, and doesn't stay in the address."""
    user.expected = ("401",)
    context = user.browser.new_context()
    page = context.new_page()
    page.goto(server_of("calm").link.split("#")[0] + "#login=wrong")
    expect(page.locator("h1")).to_have_text("Log in")
    assert "wrong" not in page.url
    context.close()
