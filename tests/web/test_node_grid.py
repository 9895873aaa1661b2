"""The node grid: 5,000 nodes within a frame, by pointer and by keyboard."""

import statistics
from collections.abc import Callable

from playwright.sync_api import expect

from tests.web.conftest import PageServer, PageUser

Servers = Callable[[str], PageServer]

_MEASURE = """
async (kind) => {
  const element = document.querySelector('.grid-canvas');
  const box = element.getBoundingClientRect();
  const original = window.requestAnimationFrame;
  let painting = 0;
  window.requestAnimationFrame = (callback) => original((time) => {
    const start = performance.now();
    callback(time);
    painting += performance.now() - start;
  });
  const nextFrame = () => new Promise((resolve) => original(() => setTimeout(resolve, 0)));
  const send = (type, x, y, buttons) => element.dispatchEvent(new PointerEvent(type,
    {clientX: box.left + x, clientY: box.top + y, buttons, pointerId: 1, bubbles: true}));
  element.setPointerCapture = () => undefined;
  const times = [];
  if (kind === 'pan') {
    for (let i = 0; i < 8; i++) {
      element.dispatchEvent(new WheelEvent('wheel',
        {deltaY: -40, clientX: box.left + 300, clientY: box.top + 200, cancelable: true}));
      await nextFrame();
    }
    send('pointerdown', 500, 300, 1);
  }
  for (let i = 0; i < 120; i++) {
    painting = 0;
    const start = performance.now();
    if (kind === 'hover') send('pointermove', 20 + (i * 37) % 900, 40 + (i * 17) % 400, 0);
    if (kind === 'zoom') element.dispatchEvent(new WheelEvent('wheel',
      {deltaY: i % 40 < 20 ? -20 : 20, clientX: box.left + 300, clientY: box.top + 200, cancelable: true}));
    if (kind === 'pan') send('pointermove', 500 + 40 * Math.sin(i / 5), 300 + 40 * Math.cos(i / 5), 1);
    await Promise.resolve().then(() => undefined).then(() => undefined);
    const handling = performance.now() - start;
    await nextFrame();
    times.push(handling + painting);
  }
  if (kind === 'pan') send('pointerup', 500, 300, 0);
  window.requestAnimationFrame = original;
  return times;
}
"""


def test_frame_times(user: PageUser, server_of: Servers) -> None:
    """With 5,000 nodes, pan, zoom and hover take less than 16 ms a frame at the median."""
    page = user.visit(server_of("fleet"), motion="no-preference")
    expect(page.locator(".answers")).to_contain_text("5,000 nodes")
    medians = {}
    for kind in ("hover", "zoom", "pan"):
        times = page.evaluate(_MEASURE, kind)
        medians[kind] = statistics.median(times)
        print(f"{kind}: median {medians[kind]:.1f} ms, 95% {statistics.quantiles(times, n=20)[-1]:.1f} ms")
    assert all(median < 16 for median in medians.values()), medians


def test_keyboard(user: PageUser, server_of: Servers) -> None:
    """Arrow keys go from node to node and say where they are; Enter opens, Escape closes."""
    page = user.visit(server_of("pool"))
    grid = page.get_by_role("application")
    grid.focus()
    page.keyboard.press("ArrowRight")
    said = page.locator(".grid-frame [role=status]")
    expect(said).to_contain_text("pods")
    first = said.inner_text()
    page.keyboard.press("ArrowRight")
    expect(said).not_to_have_text(first)
    page.keyboard.press("+")
    page.keyboard.press("Enter")
    expect(page.locator(".panel h2")).to_contain_text("node-")
    page.keyboard.press("Escape")
    expect(page.locator(".panel")).to_have_count(0)


def test_pointer(user: PageUser, server_of: Servers) -> None:
    """Hover shows a node, a click opens it, and the address is a deep link to it."""
    page = user.visit(server_of("pool"))
    grid = page.get_by_role("application")
    grid.hover(position={"x": 60, "y": 60})
    name = page.locator(".grid-tooltip strong").inner_text()
    grid.click(position={"x": 30, "y": 60})
    expect(page.locator(".panel h2")).to_have_text(name)
    assert name in page.url
    expect(page.locator(".panel")).to_contain_text("What keeps it from being emptied")


def test_waves(user: PageUser, server_of: Servers) -> None:
    """The scrubber steps through the waves, and each step has its own address."""
    page = user.visit(server_of("pool"), "cluster?wave=0")
    expect(page.locator(".scrubber")).to_contain_text("before the first wave")
    page.get_by_role("button", name="Next wave").click()
    expect(page.locator(".scrubber")).to_contain_text("after wave 1")
    assert "wave=1" in page.url


def test_groups(user: PageUser, server_of: Servers) -> None:
    """Nodes are grouped by any label and shown by any resource; the table follows."""
    page = user.visit(server_of("pool"), "cluster")
    legend = page.locator(".load-legend")
    expect(legend).to_contain_text("cpu load")
    expect(legend).to_contain_text("pod that moves")
    page.goto(server_of("pool").address("cluster?as=table"))
    expect(legend).not_to_contain_text("pod that moves")
    page.get_by_label("Group by").select_option("none")
    page.get_by_role("button", name="memory").click()
    page.get_by_role("button", name="Requests").click()
    expect(page.locator("tbody tr")).to_have_count(40)
    expect(legend).to_contain_text("memory requests")
    expect(legend).not_to_contain_text("after the plan")
    assert "resource=memory" in page.url
    assert "measure=requests" in page.url
    page.locator("th button", has_text="Pods").click()
    expect(page.locator("th[aria-sort=descending]")).to_have_count(1)
