"""Pictures of every view in both themes and at three widths: `make web-pictures` writes those of the docs.

Figures that depend on the machine are fixed: the browser's clock, and how long planning took.
"""

import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from bench.clusters import NOW_S
from tests.web.conftest import ROOT, SIZES, PageServer, PageUser

pytestmark = pytest.mark.full

Servers = Callable[[str], PageServer]

PICTURES = {
    "cluster": ("pool", "cluster", ".scrubber"),
    "fleet": ("fleet", "cluster", ".scrubber"),
    "node": ("pool", "cluster/node-00029", ".panel table"),
    "plan": ("pool", "plan", ".histogram"),
    "what-if": ("pool", "what-if?drain=node-00029", ".what-if-plan .histogram"),
    "why": ("pool", "plan", ".histogram"),
    "moves": ("trouble", "moves", ".figures"),
    "move": ("trouble", "moves", ".figures"),
    "action": ("calm", "cluster/worker-6", ".panel table"),
    "login": ("tokens", "cluster", "form.login"),
    "live": ("shop", "cluster?group=none", ".answer-word.active"),
}
"""By name: which cluster, which address, and what must be there."""
LOOKS = [(theme, width) for theme in ("light", "dark") for width in SIZES]


@pytest.mark.parametrize("name", PICTURES)
def test_picture(user: PageUser, server_of: Servers, tmp_path: Path, name: str) -> None:
    """The view has its content in every size, and nothing is wider than the window."""
    kind, route, content = PICTURES[name]
    page = user.visit(server_of(kind), "nowhere")
    if kind in {"pool", "fleet"}:
        page.clock.set_fixed_time(datetime.fromtimestamp(NOW_S, UTC) + timedelta(seconds=20))
        page.route(re.compile(r"/api/v1/(plan|what-if.*)$"), with_fixed_figures)
    page.goto(server_of(kind).address(route))
    page.reload()
    expect(page.locator(content).first).to_be_visible(timeout=120_000)
    if name == "why":
        page.locator("tbody tr a", has_text="store-").first.click()
        expect(page.locator(".matrix")).to_be_visible()
    if name in {"moves", "move"}:  # its charts and its history have something to show
        finished = page.locator("table", has_text="Result").locator("tbody tr")
        expect(finished.nth(4)).to_be_visible(timeout=120_000)
    if name == "move":
        finished.filter(has_text="Completed").first.locator("a").first.click()
        expect(page.locator(".panel .timeline, .panel ol").first).to_be_visible()
        page.evaluate("window.scrollTo(0, 0)")  # the click has scrolled to the row
    if name == "action":
        page.locator(".panel").get_by_role("button", name="Drain", exact=True).click()
        expect(page.get_by_role("dialog").locator("pre").first).to_be_visible()
    page.mouse.move(0, 0)  # nothing is hovered
    for theme, width in LOOKS:
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": SIZES[width]})
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        page.wait_for_timeout(400)  # canvases are painted in the next frame, and charts after a resize
        folder = ROOT / "docs/images/web" if os.environ.get("PICTURES") else tmp_path
        page.screenshot(path=folder / f"{name}-{theme}-{width}.png", animations="disabled")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, (theme, width)


def with_fixed_figures(route: Route) -> None:
    """Answer as the server does, with one planning time for all pictures."""
    answer = route.fetch(timeout=120_000)  # a busy machine plans slowly
    body = json.loads(answer.body())
    plan = body.get("plan", body)
    if "planningSeconds" in plan:
        plan["planningSeconds"] = 0.12
    route.fulfill(response=answer, json=body)
