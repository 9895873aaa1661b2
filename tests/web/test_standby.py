"""The page on a replica that doesn't lead: it follows the leader's moves, and actions reach the leader."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from rescheduler.cli.demo.demo_scenario import DEMO_NAMESPACE
from tests.web.conftest import Findings, PageServer, PageUser, open_movable_pod
from tests.web.test_live_page import kubectl

Servers = Callable[[str], PageServer]


@pytest.fixture
def server(server_of: Servers) -> PageServer:
    return server_of("standby")


def test_plan_on_standby(server: PageServer, user: PageUser, findings: Findings) -> None:
    """The plan says that it is not the one that is executed, and who executes another."""
    lease = kubectl(
        server, "get", "lease", "-n", DEMO_NAMESPACE, "-o", "jsonpath={.items[*].spec.holderIdentity}"
    )
    assert lease.stdout == "replica-0"
    page = user.visit(server, "plan")
    expect(page.locator(".page-head")).to_contain_text("replica-0 leads and executes plans of its own")
    assert findings(page) == []
    session = page.request.get(server.address("").partition("#")[0] + "api/v1/session").json()
    assert (session["replica"], session["isLeader"]) == ("replica-1", False)


def test_status_on_standby(server: PageServer, user: PageUser) -> None:
    """The first screen has the status that the leader writes: when it last checked, and what is wrong."""
    page = user.visit(server)
    expect(page.locator(".connection")).to_have_text("Live")
    moving = page.locator(".answer").nth(1)
    expect(moving).to_contain_text(re.compile("checked (now|.* ago)"))
    expect(page.locator(".answers")).to_contain_text("all 6 nodes ready")


def test_move_by_the_leader(server: PageServer, user: PageUser) -> None:
    """A move that is requested on a standby replica is executed by the leader, and is watched to its end."""
    page = user.visit(server, "why")
    open_movable_pod(page, "shop/search")
    page.get_by_role("button", name="Move this pod").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Move this pod").click()
    dialog.locator("a").first.click()
    expect(page.locator(".panel")).to_contain_text("Completed", timeout=60_000)
    expect(page.locator(".timeline")).to_contain_text("MigrationCompleted")


def test_pause_of_the_leader(server: PageServer, user: PageUser) -> None:
    """Pausing on a standby replica pauses the leader, and both say so."""
    page = user.visit(server, "moves")
    page.get_by_role("button", name="Pause moves").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Pause moves").click()
    expect(dialog.locator("[role=status]")).not_to_be_empty()
    dialog.get_by_role("button", name="Close").click()
    expect(page.locator("main .notice")).to_contain_text("paused", timeout=30_000)  # the leader's halt
    page.get_by_role("button", name="Resume moves").click()
    dialog.get_by_role("button", name="Resume moves").click()
    dialog.get_by_role("button", name="Close").click()
    expect(page.locator("main .notice")).to_have_count(0)
