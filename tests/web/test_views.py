"""Every view, with data from the real server: what it shows, no console errors, no axe findings."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import PageServer, Visitor

Servers = Callable[[str], PageServer]

VIEWS = {
    "cluster": ".answers",
    "cluster?as=table": "td .load",
    "cluster/node-00000": ".panel table",
    "plan": ".histogram",
    "what-if?drain=node-00000": ".what-if-plan .histogram",
    "why": ".page",
    "moves": ".page",
    "nowhere": ".state-title",
}


def findings(page: Page, axe: str) -> list[str]:
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{each['id']}: {each['nodes'][0]['html'][:160]}" for each in found["violations"]]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("route", VIEWS)
def test_accessible(visitor: Visitor, server_of: Servers, axe: str, route: str, theme: str) -> None:
    """No view has findings of axe-core, in either theme."""
    visitor.expected = ("404",)
    page = visitor.visit(server_of("pool"), route, theme=theme)
    page.wait_for_selector(VIEWS[route])
    assert findings(page, axe) == []


@pytest.mark.parametrize("route", ["cluster", "plan", "what-if", "moves"])
def test_phone(visitor: Visitor, server_of: Servers, axe: str, route: str) -> None:
    """On a phone nothing is wider than the screen, and the controls are large enough."""
    page = visitor.visit(server_of("pool"), route, width=390)
    page.wait_for_selector("main .page, main .cluster")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert findings(page, axe) == []


def test_first_screen(visitor: Visitor, server_of: Servers) -> None:
    """The first screen answers the three questions in words."""
    page = visitor.visit(server_of("pool"))
    expect(page.locator(".answer-word").nth(0)).to_have_text(re.compile("balanced", re.IGNORECASE))
    expect(page.locator(".answer-word").nth(1)).to_have_text("Nothing")
    expect(page.locator(".answers")).to_contain_text("all 40 nodes ready")
    expect(page.locator(".answers")).to_contain_text("moves planned")


def test_chinese(visitor: Visitor, server_of: Servers) -> None:
    """A Chinese browser gets Chinese; a click changes to English."""
    page = visitor.visit(server_of("pool"), "plan", language="zh-CN")
    expect(page.locator("h1")).to_have_text("计划")
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    page.get_by_role("button", name="Switch to English").click()
    expect(page.locator("h1")).to_have_text("Plan")


def test_theme(visitor: Visitor, server_of: Servers) -> None:
    """The viewer's choice of theme wins over the system's, and lasts."""
    page = visitor.visit(server_of("pool"), theme="dark")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.get_by_role("button", name="Theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.reload()
    page.wait_for_selector(".answers")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_graphics_have_tables(visitor: Visitor, server_of: Servers) -> None:
    """Each histogram can be read as a table."""
    page = visitor.visit(server_of("pool"), "plan")
    figure = page.locator("figure").first
    figure.get_by_role("button", name="Table").click()
    expect(figure.locator("tbody tr").first).to_contain_text("0\u20135%")


def test_plan(visitor: Visitor, server_of: Servers) -> None:
    """The plan lists moves with reasons, and refusals with remedies."""
    page = visitor.visit(server_of("pool"), "plan")
    expect(page.locator("tbody tr").first).to_contain_text("LoadBalancing")
    page.locator(".refusals summary").first.click()
    expect(page.locator(".refusal-body").first).to_contain_text("What would help")


def test_why(visitor: Visitor, server_of: Servers) -> None:
    """From a move of the plan to the matrix of its pod: which rule forbids which node."""
    page = visitor.visit(server_of("pool"), "plan")
    page.locator("tbody tr a").first.click()
    expect(page.locator(".why-word")).to_contain_text("May move")
    expect(page.locator(".matrix")).to_contain_text("The scheduler's rules")
    page.locator(".matrix tr.fits summary").click()
    page.locator(".matrix tr.fits li a", has_text="try").first.click()
    expect(page.locator(".chips li")).to_have_count(1)


def test_what_if(visitor: Visitor, server_of: Servers) -> None:
    """Changes give another plan; its link shows the same to somebody else; it can be saved for `apply`."""
    page = visitor.visit(server_of("pool"), "what-if")
    page.get_by_label("Most moves").fill("3")
    expect(page.locator(".figure-value").first).to_have_text("3")
    page.wait_for_url(re.compile("what-if/.+"))
    other = visitor.visit(server_of("pool"), page.url.split("#/")[1])
    expect(other.locator(".figure-value").first).to_have_text("3")
    expect(other.get_by_label("Most moves")).to_have_value("3")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export JSON").click()
    assert '"kind": "Plan"' in download.value.path().read_text()


def test_added_nodes(visitor: Visitor, server_of: Servers) -> None:
    """A plan that needs nodes which don't exist can't be saved for `apply`."""
    page = visitor.visit(server_of("pool"), "what-if?like=node-00001&count=2")
    expect(page.locator(".what-if-plan")).to_contain_text("Added")
    expect(page.get_by_role("button", name="Export JSON")).to_be_disabled()


def test_hostile_names(visitor: Visitor, server_of: Servers) -> None:
    """Names and labels with markup and control characters are text, wherever they appear."""
    server = server_of("hostile")
    name = "%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E%22'%E2%80%AE%07"
    for route in ("cluster?as=table", f"cluster/{name}", "plan", f"what-if?drain={name}", "moves"):
        page = visitor.visit(server, route)
        page.wait_for_load_state("networkidle")
        assert page.locator("main img").count() == 0, route
        assert "\u202e" not in page.inner_text("body"), route
    page = visitor.visit(server, f"cluster/{name}")
    expect(page.locator(".panel h2")).to_contain_text("<img src=x onerror=alert(1)>")
