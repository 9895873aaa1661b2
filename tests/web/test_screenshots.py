"""Pictures of every view in both themes and at three widths: `make web-pictures` writes those of the docs."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.web.conftest import ROOT, SIZES, PageServer, Visitor

Servers = Callable[[str], PageServer]

PICTURES = {
    "cluster": ("pool", "cluster", ".scrubber"),
    "fleet": ("fleet", "cluster", ".answers"),
    "node": ("pool", "cluster/node-00029", ".panel table"),
    "plan": ("pool", "plan", ".histogram"),
    "what-if": ("pool", "what-if?drain=node-00029", ".what-if-plan .histogram"),
    "why": ("pool", "plan", ".histogram"),
    "moves": ("shop", "moves", "td .steps"),
    "live": ("shop", "cluster", ".answers"),
}
"""By name: which cluster, which address, and what must be there."""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("name", PICTURES)
def test_picture(
    visitor: Visitor, server_of: Servers, tmp_path: Path, name: str, width: int, theme: str
) -> None:
    """The view has its content at this width, and nothing is wider than the window."""
    kind, route, content = PICTURES[name]
    page = visitor.visit(server_of(kind), route, width=width, theme=theme)
    if name != "moves":
        page.wait_for_selector(content)
    if name == "why":
        page.locator("tbody tr a", has_text="store-").first.click()
        page.wait_for_selector(".matrix")
    _settle(page)
    folder = ROOT / "docs/images/web" if os.environ.get("PICTURES") else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"{name}-{theme}-{width}.png")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def _settle(page: Page) -> None:
    """Wait until two pictures in a row are the same, up to what the clock changes."""
    before = b""
    for _ in range(12):
        page.wait_for_timeout(250)
        now = page.screenshot()
        if now == before:
            return
        before = now
