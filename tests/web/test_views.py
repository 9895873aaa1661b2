"""Every view, with data from the real server: what it shows, no console errors, no axe findings."""

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from rescheduler.api.well_known_names import API_VERSION
from rescheduler.cli.demo.demo_scenario import DEMO_NAMESPACE
from tests.web.conftest import Findings, PageServer, PageUser
from tests.web.page_servers import LONGEST
from tests.web.test_live_page import kubectl

Servers = Callable[[str], PageServer]

MARKUP = "<img src=x onerror=alert(1)>"
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


@pytest.mark.parametrize("route", VIEWS)
def test_accessible(user: PageUser, server_of: Servers, findings: Findings, route: str) -> None:
    """No view has findings of axe-core, in either theme, and none is wider than a phone."""
    user.expected = ("404",)
    page = user.visit(server_of("pool"), route)
    page.wait_for_selector(VIEWS[route])
    assert findings(page) == []


def test_first_screen(user: PageUser, server_of: Servers) -> None:
    """The first screen answers the three questions in words."""
    page = user.visit(server_of("pool"))
    expect(page.locator(".answer-word").nth(0)).to_have_text(re.compile("balanced", re.IGNORECASE))
    expect(page.locator(".answer-word").nth(1)).to_have_text("Nothing")
    expect(page.locator(".answers")).to_contain_text("all 40 nodes ready")
    expect(page.locator(".answers")).to_contain_text("moves planned")


def test_chinese(user: PageUser, server_of: Servers) -> None:
    """A Chinese browser gets Chinese; a click changes to English."""
    page = user.visit(server_of("pool"), "plan", language="zh-CN")
    expect(page.locator("h1")).to_have_text("计划")
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    page.get_by_role("button", name="Switch to English").click()
    expect(page.locator("h1")).to_have_text("Plan")


def test_refusals_in_chinese(user: PageUser, server_of: Servers) -> None:
    """What a reason means and what would help is Chinese; names and settings stay as they are."""
    page = user.visit(server_of("pool"), "plan", language="zh-CN")
    group = page.locator(".refusals li", has_text="JobPod")
    expect(group.locator(".refusal-meaning")).to_contain_text("属于某个 Job")
    group.locator("summary").click()
    expect(group.locator(".refusal-body")).to_contain_text("请设置 includeJobs")
    group.locator(".refusal-body a").first.click()
    kept_by = page.locator(".refusal-list").first
    expect(kept_by).to_contain_text("JobPod 属于某个 Job")
    expect(kept_by).not_to_contain_text("It belongs")
    page.get_by_role("button", name="Switch to English").click()
    expect(kept_by).to_contain_text("JobPod It belongs to a Job; a move would restart its work.")


def test_halt_in_chinese(user: PageUser, server_of: Servers) -> None:
    """A halt says in Chinese what it is and how it ends, beside the words of the server."""
    server = server_of("calm")
    pause(server, paused=True, by="ann", why="upgrade")
    page = user.visit(server, "moves", language="zh-CN")
    expect(page.locator("main .notice")).to_contain_text(
        "Paused 迁移已被暂停。运行 rescheduler resume 后恢复。 (paused by ann: upgrade)"
    )
    page.goto(server.address("cluster"))
    expect(page.locator(".answers")).to_contain_text("迁移已被暂停")
    pause(server, paused=False)
    expect(page.locator(".answers")).not_to_contain_text("迁移已被暂停")


def test_steps_in_chinese(user: PageUser, server_of: Servers) -> None:
    """The name of a step has its meaning beside it, which English names don't need."""
    server = server_of("calm")
    request_move(server, "in-chinese", "test")
    page = user.visit(server, "moves/shop/in-chinese", language="zh-CN")
    expect(page.locator(".panel .steps")).to_contain_text("Completed 已完成", timeout=60_000)
    page.get_by_role("button", name="Switch to English").click()
    expect(page.locator(".panel .steps")).to_have_text("Completed")


def test_order_of_nodes(user: PageUser, server_of: Servers) -> None:
    """The key says how the nodes are sorted, and the table names what they are grouped by."""
    page = user.visit(server_of("pool"))
    expect(page.locator(".load-legend")).to_contain_text("sorted, highest first")
    page.get_by_role("button", name="Table", exact=True).click()
    expect(page.get_by_role("columnheader", name="Zone")).to_be_visible()
    label = "topology.kubernetes.io/zone"
    page.goto(server_of("pool").address(f"cluster?as=table&group=label:{label}"))
    expect(page.get_by_role("columnheader", name=label)).to_be_visible()
    expect(page.locator(".load-legend")).not_to_contain_text("sorted")


def test_theme(user: PageUser, server_of: Servers) -> None:
    """The viewer's choice of theme wins over the system's, and lasts."""
    user.expected = ("getImageData",)  # of this test
    page = user.visit(server_of("pool"), theme="dark")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    # Inside of a cell, once it is painted: its surface is opaque.
    inside = "document.querySelector('canvas')?.getContext('2d').getImageData(60, 90, 1, 1).data"
    page.wait_for_function(f"() => {{ const at = {inside}; return at && at[3] === 255 && at[0] < 128; }}")
    page.get_by_role("button", name="Theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.wait_for_function(f"() => {inside}[0] > 128")  # the grid has the colors of the new theme
    page.reload()
    page.wait_for_selector(".answers")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_graphics_have_tables(user: PageUser, server_of: Servers) -> None:
    """Each histogram can be read as a table."""
    page = user.visit(server_of("pool"), "plan")
    figure = page.locator("figure").first
    figure.get_by_role("button", name="Table").click()
    expect(figure.locator("tbody tr").first).to_contain_text("0\u20135%")


def test_plan(user: PageUser, server_of: Servers) -> None:
    """The plan lists moves with reasons, and refusals with remedies."""
    page = user.visit(server_of("pool"), "plan")
    expect(page.locator("tbody tr").first).to_contain_text("LoadBalancing")
    expect(page.locator(".figures")).to_contain_text("cpu spread, limit 20")
    page.locator(".refusals summary").first.click()
    expect(page.locator(".refusal-body").first).to_contain_text("What would help")


def test_moves_on_a_phone(user: PageUser, server_of: Servers) -> None:
    """A row is a block of lines, in which no cell runs into the next."""
    page = user.visit(server_of("pool"), "plan", width=390)
    page.wait_for_selector("tbody td")
    cut = "cells => cells.filter((cell) => cell.scrollWidth > cell.clientWidth + 1).length"
    assert page.eval_on_selector_all("tbody td", cut) == 0


def test_why(user: PageUser, server_of: Servers) -> None:
    """From a move of the plan to the matrix of its pod: which rule forbids which node."""
    page = user.visit(server_of("pool"), "plan")
    page.locator("tbody tr a").first.click()
    expect(page.locator(".why-word")).to_contain_text("May move")
    expect(page.locator(".matrix")).to_contain_text("The scheduler's rules")
    fits = page.locator(".matrix tr.fits details")
    if fits.get_attribute("open") is None:  # many nodes
        fits.locator("summary").click()
    page.locator(".matrix tr.fits li a", has_text="try").first.click()
    expect(page.locator(".chips li")).to_have_count(1)


def test_hostile_names(user: PageUser, server_of: Servers) -> None:
    """Names and labels with markup and control characters are text, wherever they appear."""
    server = server_of("hostile")
    name = "%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E%22'%E2%80%AE%07"
    views = {
        "cluster?as=table": "td .load",
        f"cluster/{name}": ".panel table",
        "plan": ".histogram",
        f"what-if?drain={name}": ".what-if-plan .histogram",
        "moves": ".page",
    }
    for route, content in views.items():
        page = user.visit(server, route)
        page.wait_for_selector(content)
        assert page.locator("main img").count() == 0, route
        assert "\u202e" not in page.inner_text("body"), route
    page = user.visit(server, f"cluster/{name}")
    panel = page.locator(".panel")
    expect(panel.locator("h2")).to_contain_text(MARKUP)
    panel.get_by_text("Labels and taints").click()
    expect(panel.locator("details[open]")).to_contain_text(MARKUP)
    panel.get_by_role("table", name="Pods of the node").locator("tbody a").first.click()
    expect(page.locator(".why-word")).to_be_visible()
    expect(page.locator("main")).to_contain_text(MARKUP)
    assert page.locator("main img").count() == 0
    page.goto(server.address("cluster"))
    page.get_by_role("application").focus()
    for _ in range(30):  # to the node with the markup, by what is said of each
        page.keyboard.press("ArrowRight")
        if MARKUP in page.locator(".grid-frame [role=status]").inner_text():
            break
    else:
        raise AssertionError("the node was not found in the grid")
    assert page.locator("main img").count() == 0


def pause(server: PageServer, **state: object) -> None:
    patch = json.dumps({"data": {"pause": json.dumps(state)}})
    name = ("configmap", "rescheduler-state", "--namespace", DEMO_NAMESPACE)
    assert kubectl(server, "patch", *name, "--type=merge", "--patch", patch).returncode == 0


def request_move(server: PageServer, name: str, reason: str) -> None:
    """Create a PodMigration of a pod of the shop."""
    listed = kubectl(server, "get", "pods", "-n", "shop", "-l", "app=web", "-o", "json")
    pod = json.loads(listed.stdout)["items"][0]
    migration = {
        "apiVersion": API_VERSION,
        "kind": "PodMigration",
        "metadata": {"namespace": "shop", "name": name, "annotations": {"note": MARKUP}},
        "spec": {
            "pod": {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
            "sourceNode": pod["spec"]["nodeName"],
            "reason": reason,
        },
    }
    made = kubectl(server, "create", "-f", "-", content=migration)
    assert made.returncode == 0, made.stderr


def test_hostile_migration(user: PageUser, server_of: Servers) -> None:
    """The reason of a PodMigration is of any user who may create one: it is text, like that of a pause."""
    server = server_of("calm")
    request_move(server, "hostile", f"{MARKUP}</script><svg onload=alert(2)>\u202e")
    page = user.visit(server, "moves/shop/hostile")
    expect(page.locator(".panel dl")).to_contain_text(f"{MARKUP}</script><svg onload=alert(2)>")
    assert page.locator("main img, main svg[onload]").count() == 0
    assert "\u202e" not in page.inner_text("body")
    expect(page.locator(".panel")).to_contain_text("Completed", timeout=60_000)
    pause(server, paused=True, by="a", why=f"{MARKUP}\u202e")
    page.goto(server.address("moves"))
    expect(page.locator("main .notice")).to_contain_text(MARKUP)
    assert page.locator("main img").count() == 0
    pause(server, paused=False)
    expect(page.get_by_role("button", name="Pause moves")).to_be_visible()


@pytest.mark.parametrize(
    "route",
    ["cluster", "cluster?as=table", f"cluster/{LONGEST}", "plan", f"what-if?drain={LONGEST}", "why", "moves"],
)
@pytest.mark.parametrize("width", [390, 1024])
def test_longest_names(user: PageUser, server_of: Servers, route: str, width: int) -> None:
    """Names of 253 characters make no view wider than its window, and no button unreachable."""
    page = user.visit(server_of("hostile"), route, width=width)
    expect(page.locator("main > *").first).to_be_visible()
    if route == "why":
        page.get_by_role("combobox", name="Find a pod").fill(LONGEST[:60])
        page.get_by_role("option").first.click()
        expect(page.locator(".matrix, .why-word").first).to_be_visible()
    expect(page.locator(".loading")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    close = page.locator(".panel").get_by_role("button", name="Close")
    if LONGEST in route and "what-if" not in route:
        box = close.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= width


@pytest.mark.parametrize(
    "route", ["cluster?as=table", "cluster/node-00000", "plan", "what-if?drain=node-00000", "why"]
)
def test_tables_on_a_phone(user: PageUser, server_of: Servers, route: str) -> None:
    """No table is cut off on a phone: rows become blocks, or columns that matter less are left out."""
    page = user.visit(server_of("pool"), route, width=390)
    expect(page.locator(".table-scroll:visible").first).to_be_visible()
    if route == "why":
        page.locator("tbody tr a").first.click()
        expect(page.locator(".matrix")).to_be_visible()
    frames = page.locator(".table-scroll:visible").evaluate_all(
        "frames => frames.map(frame => [frame.ariaLabel, frame.scrollWidth - frame.clientWidth])"
    )
    assert [name for name, hidden in frames if hidden > 0] == []
