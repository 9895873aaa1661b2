"""Users who log in with a token: what they see, what they may do, and what the page hides from them."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import Findings, PageServer, PageUser, open_movable_pod

Servers = Callable[[str], PageServer]


@pytest.fixture
def server(server_of: Servers) -> PageServer:
    return server_of("tokens")


def log_in(page: Page, token: str) -> None:
    page.get_by_label("Bearer token").fill(token)
    page.get_by_role("button", name="Log in").click()


def test_login(server: PageServer, user: PageUser, findings: Findings) -> None:
    """A wrong token says so; a valid one leads to the view of the address, and is stored nowhere."""
    user.expected = ("401",)
    page = user.visit(server, "moves")
    expect(page.locator("h1")).to_have_text("Log in")
    assert findings(page) == []
    log_in(page, "token-of-a-thief")
    expect(page.get_by_role("alert")).to_contain_text("doesn't accept this token")
    log_in(page, "token-of-admin")
    expect(page.locator("h1")).to_have_text("Moves")
    stored = page.evaluate(
        "JSON.stringify({...localStorage, ...sessionStorage}) + document.cookie + location.href"
    )
    assert "token-of-admin" not in stored
    page.get_by_role("button", name="Log out").click()
    expect(page.locator("h1")).to_have_text("Log in")
    page.reload()
    expect(page.locator("h1")).to_have_text("Log in")


def test_hidden_namespaces(server: PageServer, user: PageUser) -> None:
    """Who may list only the pods of the shop sees no other pod, and no action that they may not do."""
    page = user.visit(server, "cluster/worker-1")
    log_in(page, "token-of-dev")
    panel = page.locator(".panel")
    expect(panel).to_contain_text("shop/")
    expect(panel).to_contain_text("namespaces that you can't see")
    assert "kube-system" not in panel.inner_text()
    expect(panel.get_by_role("link", name="Try draining it")).to_be_visible()
    expect(panel.get_by_role("button", name="Drain", exact=True)).to_have_count(0)
    page.goto(server.address("why"))
    page.get_by_role("combobox", name="Find a pod").fill("node-logs")
    expect(page.get_by_role("option")).to_have_count(0)
    page.goto(server.address("moves"))
    expect(page.get_by_role("button", name="Pause moves")).to_have_count(0)


def test_allowed_move(server: PageServer, user: PageUser) -> None:
    """Who may create PodMigrations in the shop moves a pod there, and watches it to its end."""
    page = user.visit(server, "why")
    log_in(page, "token-of-dev")
    open_movable_pod(page, "shop/cart")
    page.get_by_role("button", name="Move this pod").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("summary")).to_contain_text(re.compile("PodMigration.*shop/"))
    expect(dialog.locator("pre")).to_contain_text("requested by dev")
    dialog.get_by_role("button", name="Move this pod").click()
    dialog.locator("a").first.click()
    expect(page.locator(".panel")).to_contain_text("Completed", timeout=60_000)
    expect(page.locator(".timeline li").first).to_contain_text("Created")


def test_without_nodes(server: PageServer, user: PageUser, findings: Findings) -> None:
    """Who may list nothing sees why, and no object of the cluster."""
    page = user.visit(server)
    log_in(page, "token-of-nobody")
    expect(page.locator("main")).to_contain_text("You may not list nodes")
    assert findings(page) == []
    for route, words in (("plan", "Plan"), ("moves", "Moves"), ("why", "Why")):
        page.goto(server.address(route))
        expect(page.locator("main")).to_contain_text(words)
        assert not re.search(r"worker-\d|web-|cart-", page.inner_text("body")), route


def test_token_for_looking(server: PageServer, user: PageUser) -> None:
    """With a token for the page's own audience, an administrator sees everything and is offered nothing."""
    page = user.visit(server, "moves")
    log_in(page, "bound-token-of-admin")
    expect(page.locator("h1")).to_have_text("Moves")
    expect(page.get_by_role("button", name="Pause moves")).to_have_count(0)
    page.goto(server.address("cluster/worker-1"))
    expect(page.locator(".panel")).to_contain_text("kube-system/")
    expect(page.locator(".panel").get_by_role("button", name="Drain", exact=True)).to_have_count(0)
