"""Pods fly from node to node where the plan or the daemon moves them, unless the viewer wants no motion."""

import itertools
import json
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from rescheduler.api.well_known_names import API_VERSION
from tests.web.conftest import PageServer, PageUser, movable_pod
from tests.web.test_live_page import kubectl

Servers = Callable[[str], PageServer]

_RECORD_SQUARES = """
() => {
  const overlay = document.querySelectorAll('.grid-canvas canvas')[1].getContext('2d');
  const fill = overlay.fillRect;
  window.squares = [];
  overlay.fillRect = function (x, y, width, height) {
    window.squares.push([x + width / 2, y + height / 2]);
    fill.call(this, x, y, width, height);
  };
}
"""
"""Above the cells, nothing but pods on their way is a filled square."""


def step_to_next_wave(user: PageUser, server: PageServer, motion: str) -> tuple[Page, dict[str, Any]]:
    """Show the first wave that moves one pod, for 1.5 s of the page's time; return the move."""
    page = user.visit(server, "nowhere", motion=motion)
    page.clock.install()
    plan = page.request.get(server.link.partition("#")[0] + "api/v1/plan").json()
    number, wave = next(each for each in enumerate(plan["waves"], start=1) if each[1]["moves"] == 1)
    page.goto(server.address(f"cluster?wave={number - 1}"))
    with page.expect_response(re.compile(r"/pods\?node=node-00039")):  # the last: pods have their places
        page.reload()
    expect(page.locator(".scrubber")).to_contain_text(f"after wave {number - 1} of")
    page.clock.pause_at(page.evaluate("Date.now()") + 2000)
    page.evaluate(_RECORD_SQUARES)
    page.get_by_role("button", name="Next wave").click()
    page.clock.run_for(1500)
    expect(page.locator(".scrubber")).to_contain_text(f"after wave {number} of")
    return page, next(move for move in plan["moves"] if move["wave"] == wave["wave"])


def node_at(page: Page, x: float, y: float) -> str:
    box = page.get_by_role("application").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + x, box["y"] + y)
    return page.locator(".grid-tooltip strong").inner_text()


def test_pod_of_the_next_wave(user: PageUser, server_of: Servers) -> None:
    """The pod goes from its node to its new one, slowly at both ends, in 1.2 s."""
    page, move = step_to_next_wave(user, server_of("pool"), "no-preference")
    squares = page.evaluate("window.squares")
    steps = [math.dist(*pair) for pair in itertools.pairwise(squares)]
    assert len(squares) == pytest.approx(1200 / 16, abs=4)  # one per frame
    assert max(steps[:3] + steps[-3:]) < max(steps[len(steps) // 2 - 3 : len(steps) // 2 + 3]) / 3
    page.clock.resume()
    assert node_at(page, *squares[0]) == move["from"]
    assert node_at(page, *squares[-1]) == move["to"]


def test_no_pod_flies_without_motion(user: PageUser, server_of: Servers) -> None:
    """With prefers-reduced-motion, the wave is shown at once."""
    page, _ = step_to_next_wave(user, server_of("pool"), "reduce")
    assert page.evaluate("window.squares") == []


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_pod_that_was_moved(user: PageUser, server_of: Servers, motion: str) -> None:
    """A move of the daemon ends while the page is open: the pod flies once, or not at all without motion."""
    server = server_of("calm")
    page = user.visit(server, "cluster?group=none", motion=motion)
    expect(page.get_by_role("application")).to_be_visible()
    expect(page.locator(".connection")).to_have_text("Live")
    page.evaluate(_RECORD_SQUARES)
    name = movable_pod(page, "shop/web").partition("/")[2]
    pod = json.loads(kubectl(server, "get", "pod", "-n", "shop", name, "-o", "json").stdout)
    migration = {
        "apiVersion": API_VERSION,
        "kind": "PodMigration",
        "metadata": {"namespace": "shop", "name": f"flies-{motion}"},
        "spec": {
            "pod": {"name": name, "uid": pod["metadata"]["uid"]},
            "sourceNode": pod["spec"]["nodeName"],
            "reason": "to see it fly",
        },
    }
    made = kubectl(server, "create", "-f", "-", content=migration)
    assert made.returncode == 0, made.stderr
    moving = page.locator(".answer").nth(1)
    expect(moving).to_contain_text(name)
    expect(moving).to_contain_text(re.compile("^Moving\\?Nothing"), timeout=60_000)
    if motion == "no-preference":
        page.wait_for_function("window.squares.length > 0")
    else:
        page.wait_for_timeout(300)  # several frames
        assert page.evaluate("window.squares") == []
