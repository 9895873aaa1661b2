"""A browser, web servers, and pages that fail their test on any console error."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

ROOT = Path(__file__).parents[2]
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
SIZES = {390: 844, 1024: 768, 1600: 1000}
"""Height by width: a phone, a small screen, a large one."""


@dataclass
class PageServer:
    """A process that serves one page."""

    kind: str
    port: int = 0
    process: subprocess.Popen[str] | None = None
    link: str = ""
    """With the secret that logs in, unless people log in with a token."""
    kubeconfig: str = ""
    """Of the simulated cluster, if it has one."""
    session: Any = None
    """The cookies of a viewer who has logged in by the link."""

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.web.page_servers", self.kind, str(self.port)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.link, _, self.kubeconfig = self.process.stdout.readline().strip().partition(" ")
        assert self.link, f"the server of {self.kind} did not start"
        self.port = int(self.link.split(":")[2].split("/")[0])
        self.session = None

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=20)
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def address(self, route: str) -> str:
        return f"{self.link.split('#')[0]}#/{route}"


expect.set_options(timeout=30_000)  # planning 5,000 nodes on a busy machine takes seconds


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def server_of() -> Iterator[Callable[[str], PageServer]]:
    """Start each kind of server once."""
    servers: dict[str, PageServer] = {}

    def get(kind: str) -> PageServer:
        if kind not in servers:
            servers[kind] = PageServer(kind)
            servers[kind].start()
        return servers[kind]

    yield get
    for server in servers.values():
        server.stop()


def movable_pod(page: Page, text: str) -> str:
    """Return a pod that may move now: those that another test has moved may not, for a while."""
    api = page.url.partition("#")[0] + "api/v1"
    for each in page.request.get(f"{api}/pods", params={"q": text}).json()["pods"]:
        explained = page.request.get(f"{api}/pods/{each['pod']}/explain")
        assert explained.status in {200, 404}, explained.text()
        if explained.ok and explained.json()["mayMove"]:
            return str(each["pod"])
    raise AssertionError(f"no pod of {text} may move now")


def open_movable_pod(page: Page, text: str) -> None:
    """Find a pod in Why that may move now."""
    names = page.get_by_role("combobox", name="Find a pod")
    expect(names).to_be_visible()  # the page shows it after the login
    names.fill(movable_pod(page, text))
    page.get_by_role("option").first.click()


@dataclass
class PageUser:
    """A browser window that is logged in, and what its console said."""

    browser: Browser
    errors: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()
    """Parts of console messages that the test provokes."""
    _open: list[Page] = field(default_factory=list)

    def visit(
        self,
        server: PageServer,
        route: str = "cluster",
        *,
        width: int = 1600,
        theme: str = "light",
        language: str = "en-GB",
        motion: str = "reduce",
    ) -> Page:
        context = self.browser.new_context(
            viewport={"width": width, "height": SIZES[width]},
            color_scheme=theme,  # type: ignore[arg-type]
            locale=language,
            reduced_motion=motion,  # type: ignore[arg-type]
            storage_state=server.session,
        )
        page = self.open(context)
        if server.session is None and "#login=" in server.link:
            page.goto(server.link)
            page.wait_for_selector(".answers")
            server.session = context.storage_state()
        page.goto(server.address(route))
        return page

    def open(self, context: BrowserContext) -> Page:
        """Open a window that fails the test on any error in its console."""
        context.set_default_timeout(30_000)
        page = context.new_page()
        page.on("console", lambda message: self._received(message.type, message.text))
        page.on("pageerror", lambda error: self._received("error", str(error)))
        page.on("dialog", lambda dialog: self._received("error", f"dialog: {dialog.message}"))
        self._open.append(page)
        return page

    def _received(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"} and not any(part in text for part in self.expected):
            self.errors.append(text)

    def close(self) -> None:
        for page in self._open:
            page.context.close()


@pytest.fixture
def user(browser: Browser) -> Iterator[PageUser]:
    found = PageUser(browser)
    yield found
    found.close()
    assert not found.errors


Findings = Callable[[Page], list[str]]


@pytest.fixture(scope="session")
def findings() -> Findings:
    """Return what axe-core finds in a page, in both themes and on a phone. `make test-web` installs it."""
    axe = (ROOT / "web/node_modules/axe-core/axe.min.js").read_text()

    def find(page: Page) -> list[str]:
        page.evaluate(axe)
        found = []
        for theme, width in (("light", 1600), ("dark", 1600), ("dark", 390)):
            page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            page.set_viewport_size({"width": width, "height": SIZES[width]})
            expect(page.locator("html")).to_have_attribute("data-theme", theme)
            result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            found += [
                f"{theme} {width}: {each['id']}: {each['nodes'][0]['html'][:160]}"
                for each in result["violations"]
            ]
            if page.evaluate("document.documentElement.scrollWidth") > width:
                found.append(f"{theme} {width}: wider than the window")
        return found

    return find
