"""What if: change settings, drain, drag a pod, add nodes; share the result, save it, and apply it."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.web.conftest import PageServer, PageUser, movable_pod, open_movable_pod

Servers = Callable[[str], PageServer]


def moves_of(page: Page) -> str:
    return page.locator(".what-if-plan .figure-value").first.inner_text()


def saved_plan(page: Page, folder: Path) -> Path:
    with page.expect_download() as download:
        page.get_by_role("button", name="Export JSON").click()
    file = folder / "plan.json"
    download.value.save_as(file)
    return file


def test_settings(user: PageUser, server_of: Servers) -> None:
    """Other settings give another plan; its link shows the same plan to other users."""
    page = user.visit(server_of("pool"), "what-if")
    page.get_by_label("Maximum moves").fill("3")
    expect(page.locator(".figure-value").first).to_have_text("3")
    page.get_by_label("LoadBalancing").uncheck()
    expect(page.locator(".figure-value").first).to_have_text("0")
    page.get_by_label("cpu threshold").fill("40")
    expect(page.locator("tbody tr").first).to_contain_text("ResourceOptimization")
    page.wait_for_url(re.compile("what-if/.+"))
    other = user.visit(server_of("pool"), page.url.split("#/")[1])
    expect(other.locator(".figure-value").first).to_have_text(moves_of(page))
    expect(other.get_by_label("Maximum moves")).to_have_value("3")
    expect(other.get_by_label("LoadBalancing")).not_to_be_checked()


def test_copied_link(user: PageUser, server_of: Servers) -> None:
    """The link that is copied leads to the same result."""
    page = user.visit(server_of("pool"), "what-if?drain=node-00003")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")
    other = user.visit(server_of("pool"), link.split("#/")[1])
    expect(other.locator(".chips li")).to_contain_text("node-00003")
    expect(other.locator(".figure-value").first).to_have_text(moves_of(page))


def test_drained_node(user: PageUser, server_of: Servers) -> None:
    """From the panel of a node: all movable pods leave it, and none comes."""
    page = user.visit(server_of("pool"), "cluster/node-00004")
    page.get_by_role("link", name="Try draining it").click()
    expect(page.locator(".what-if-plan")).to_contain_text("Drained nodes count as in maintenance")
    expect(page.locator("tbody tr").first).to_contain_text("node-00004 in maintenance")


def test_added_nodes(user: PageUser, server_of: Servers) -> None:
    """A plan that needs nodes which don't exist can't be saved for `apply`."""
    page = user.visit(server_of("pool"), "cluster/node-00001")
    page.get_by_role("link", name="Try adding two like it").click()
    expect(page.locator(".what-if-plan")).to_contain_text("node-00001-new-2")
    expect(page.get_by_role("button", name="Export JSON")).to_be_disabled()


def test_dragged_pod(user: PageUser, server_of: Servers, tmp_path: Path) -> None:
    """A pod that is dragged to another node is planned to go there; `rescheduler apply` moves it as saved."""
    server = server_of("calm")
    page = user.visit(server, "nowhere")
    with page.expect_response(re.compile(r"/pods\?node=worker-6")):  # the last: pods have their places
        page.goto(server.address("cluster?group=none"))
    grid = page.get_by_role("application")
    expect(grid).to_be_visible()
    pod, start, end = find_drag(page)
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2, steps=4)
    page.mouse.move(*end, steps=4)
    page.mouse.up()
    expect(grid).to_have_count(0)
    expect(page.locator(".chips li")).to_contain_text(pod)
    expect(page.locator("tbody tr").first).to_contain_text("requested by a user")
    file = saved_plan(page, tmp_path)
    command = [Path(sys.executable).with_name("rescheduler"), "apply", "--yes", file]
    done = subprocess.run(
        command,
        env={**os.environ, "KUBECONFIG": server.kubeconfig},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    page.goto(server.address("moves"))
    expect(page.locator("main")).to_contain_text("No move is running")
    expect(page.locator("tbody tr", has_text=pod.split("/")[1])).to_contain_text("Completed")


def test_executed_plan(user: PageUser, server_of: Servers) -> None:
    """A what-if is executed from the page: the dialog has each PodMigration, and nothing exists before."""
    server = server_of("calm")
    page = user.visit(server, "why")
    open_movable_pod(page, "shop/web")
    page.locator(".matrix tr.fits li a", has_text="try").first.click()
    expect(page.locator(".chips li")).to_have_count(1)
    pod = page.locator(".chips li").inner_text().split(" ")[0]
    page.get_by_role("button", name="Execute").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("summary")).to_have_count(1)
    expect(dialog.locator("pre")).to_contain_text(pod.split("/")[1])
    expect(dialog.locator("pre")).to_contain_text("PodMigration")
    dialog.get_by_role("button", name="Execute").click()
    dialog.locator("a").first.click()
    expect(page.locator(".panel")).to_contain_text("Completed", timeout=60_000)


Point = tuple[float, float]


def find_drag(page: Page) -> tuple[str, Point, Point]:
    """Return a pod that may move, where it is, and the middle of the next cell: three are in a row."""
    wanted = movable_pod(page, "shop/web")
    api = page.url.partition("#")[0] + "api/v1"
    node = page.request.get(f"{api}/pods/{wanted}/explain").json()["node"]
    grid = page.get_by_role("application")
    box = grid.bounding_box()
    assert box is not None
    cells = [
        (box["x"] + (column + 0.5) * box["width"] / 3, box["y"] + row * box["height"] / 2)
        for row in range(2)
        for column in range(3)
    ]
    for index, (x, top) in enumerate(cells):
        if node not in hovered(page, x, top + 20):
            continue
        for y in range(20, int(box["height"] / 2), 8):
            if wanted in hovered(page, x, top + y):
                middle, begin = cells[(index + 1) % len(cells)]
                return wanted, (x, top + y), (middle, begin + box["height"] / 4)
    raise AssertionError(f"{wanted} is not in the grid")


def hovered(page: Page, x: float, y: float) -> str:
    """Return what the tooltip says at a point, in the frame after the pointer has moved there."""
    page.mouse.move(x, y)
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    return " ".join(page.locator(".grid-tooltip").all_inner_texts())
