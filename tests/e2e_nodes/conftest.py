"""Real nodes for all of a test run (`make e2e-nodes`); each test has a namespace of its own."""

import itertools
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.testbed import ControlPlane, leftovers
from tests.testbed.nodes import Nodes, with_nodes
from tests.testbed.nodes.sandbox import GROUP
from tests.testbed.options import QUICK
from tests.testbed.readiness import until

_numbers = itertools.count(1)

Eventually = Callable[..., Any]


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_running() -> Iterator[None]:
    """Looks after all other fixtures are gone: parts, loop devices and network cables."""
    yield
    assert leftovers() == [], "a test run leaves nothing running"
    cables = json.loads(subprocess.check_output(["ip", "-json", "link", "show", "type", "veth"]) or "[]")
    assert cables == [], "a test run leaves no network cables"


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    import os  # noqa: PLC0415

    if GROUP not in os.environ:
        pytest.fail("real nodes run in a sandbox: use `make e2e-nodes`")
    with ControlPlane(tmp_path_factory.mktemp("control-plane"), with_nodes(QUICK, 3)) as started:
        yield started


@pytest.fixture(scope="session")
def nodes(control_plane: ControlPlane, record_testsuite_property: Any) -> Iterator[Nodes]:
    began = time.monotonic()
    with Nodes(control_plane) as started:
        took = time.monotonic() - began
        memory = started.memory_used_bytes() / (1 << 20)
        record_testsuite_property("nodes", f"ready in {took:.1f} s, {memory:.0f} MiB")
        for program in ("webapp", "loadgen"):
            started.import_image(started.image(program))
        yield started


@pytest.fixture
def namespace(nodes: Nodes) -> Iterator[str]:
    name = f"test-{next(_numbers)}"
    nodes.kubectl("create", "namespace", name)
    yield name
    nodes.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def eventually() -> Eventually:
    """eventually(look, timeout_s=…): asks until the answer is true, and returns it."""

    def wait(look: Callable[[], Any], timeout_s: float = 60.0) -> Any:
        seen: list[Any] = [None]

        def holds() -> bool:
            seen[0] = look()
            return bool(seen[0])

        if not until(holds, timeout_s):
            pytest.fail(f"not so within {timeout_s:g} s; last seen: {seen[0]!r}")
        return seen[0]

    return wait
