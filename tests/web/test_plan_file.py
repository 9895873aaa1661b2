"""A plan as one file: it shows the plan without any server, and makes no request."""

from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Browser, expect

from rescheduler.cluster.sources.cluster_kinds import WebhookProbeResult
from rescheduler.config.policy import Policy
from rescheduler.web.page_model import SavedPage
from rescheduler.web.static_page import plan_html
from tests.web.page_servers import big_snapshot


def test_plan_file(browser: Browser, tmp_path: Path) -> None:
    """Cluster, plan and reasons are in the file; what needs a server says so."""
    policy = replace(Policy(), max_reschedule_pods=10)
    page = SavedPage(big_snapshot(20, 300), policy, WebhookProbeResult(steers=True, guards=True), "pool")
    page.plan()
    file = tmp_path / "plan.html"
    file.write_text(plan_html(page))
    context = browser.new_context(offline=True, locale="en-GB")
    view = context.new_page()
    requests: list[str] = []
    errors: list[str] = []
    view.on("request", lambda request: requests.append(request.url))
    view.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    view.goto(file.as_uri())
    expect(view.locator(".answers")).to_contain_text("20 nodes ready")
    view.get_by_role("link", name="Plan", exact=False).first.click()
    view.locator("tbody tr a").first.click()
    expect(view.locator(".matrix")).to_be_visible()
    view.get_by_role("link", name="What if").click()
    expect(view.locator(".state")).to_contain_text("rescheduler web")
    view.get_by_role("link", name="Moves").click()
    expect(view.locator("h1")).to_have_text("Moves")
    assert [url for url in requests if not url.startswith(("file:", "blob:", "data:"))] == []
    assert errors == []
    context.close()
