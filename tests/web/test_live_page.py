"""A live simulated cluster with the daemon in it: moves, actions, and a server that goes away."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.web.conftest import PageServer, Visitor


@pytest.fixture
def shop() -> Iterator[PageServer]:
    server = PageServer("shop")
    server.start()
    yield server
    server.stop()


def test_move_to_its_end(shop: PageServer, visitor: Visitor) -> None:
    """A move appears by itself, passes its steps, and ends in the history with what it cost."""
    page = visitor.visit(shop, "moves", motion="no-preference")
    expect(page.locator(".steps").first).to_be_visible(timeout=60_000)
    expect(page.locator("tbody td", has_text="Completed").first).to_be_visible(timeout=90_000)
    expect(page.locator(".figures")).to_contain_text("Plain eviction")
    page.locator("table", has_text="Result").locator("tbody a").first.click()
    expect(page.locator(".timeline li")).not_to_have_count(0)
    expect(page.locator(".panel")).to_contain_text("Completed")


def test_action(shop: PageServer, visitor: Visitor) -> None:
    """Pausing shows the exact request before it is made; afterwards the page says that it is paused."""
    page = visitor.visit(shop, "moves")
    page.get_by_role("button", name="Pause moves").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("request to the API server")
    expect(dialog.locator("pre")).to_contain_text("pause")
    dialog.get_by_role("button", name="Pause moves").click()
    expect(dialog.locator("[role=status]")).not_to_be_empty()
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_role("button", name="Resume moves")).to_be_visible(timeout=30_000)


def test_restarted_server(shop: PageServer, visitor: Visitor) -> None:
    """Without its server the page says so and keeps what it has; with a new one, the new link logs in."""
    visitor.expected = ("net::ERR", "401", "EventSource")
    page = visitor.visit(shop)
    expect(page.locator(".connection")).to_have_text("Live")
    shop.stop()
    expect(page.locator(".banner")).to_contain_text("Connection lost", timeout=30_000)
    expect(page.locator(".answers")).to_be_visible()
    shop.start()
    expect(page.locator("h1")).to_have_text("Log in", timeout=60_000)
    page.goto(shop.link)
    expect(page.locator(".connection")).to_have_text(re.compile("Live"), timeout=30_000)


def test_wrong_secret(shop: PageServer, visitor: Visitor) -> None:
    """A wrong link logs nobody in, and doesn't stay in the address."""
    visitor.expected = ("401",)
    context = visitor.browser.new_context()
    page = context.new_page()
    page.goto(shop.link.split("#")[0] + "#login=wrong")
    expect(page.locator("h1")).to_have_text("Log in")
    assert "wrong" not in page.url
    context.close()
