"""What holds for all tests."""

import gc
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from xdist.scheduler import LoadScopeScheduling

from tests.testbed import ControlPlane, leftovers
from tests.testbed.options import QUICK
from tests.testbed.ports import free_ports

# Helpers assert, too: say what was compared there as well.
pytest.register_assert_rewrite("tests.e2e", "tests.stories")

EXPLORED = int(os.environ.get("EXPLORE", "1"))
"""How many times as many examples as every day each property is tried with; then at random (make explore)."""

# Every day the same examples: a first `make test` is no lottery. Time limits of single examples say more
# about the machine than about the code.
settings.register_profile(
    "everyday", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
# The mutation check only asks whether an example fails.
settings.register_profile(
    "mutation", settings.get_profile("everyday"), phases=(Phase.explicit, Phase.generate)
)
settings.register_profile("explore", deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
settings.load_profile("everyday" if EXPLORED == 1 else "explore")


SHARED_CONTROL_PLANE = {"e2e", "facts", "migrations"}
"""Folders whose tests use a control plane of the whole process. Other folders start one of their own."""


class _ByControlPlane(LoadScopeScheduling):
    """Run all tests that share a control plane in one process, so that it is started only once."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        folder = file.rpartition("/")[0]
        return file if folder.rpartition("/")[2] in SHARED_CONTROL_PLANE else folder


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    return _ByControlPlane(config, log) if config.getvalue("dist") == "loadscope" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if EXPLORED != 1:
        _raise_examples(items)


def pytest_collection_finish() -> None:
    """Keep ten thousand collected tests out of every garbage collection: they stay until the end."""
    gc.collect()
    gc.freeze()


def _raise_examples(items: list[pytest.Item]) -> None:
    """Raise the number of examples of every property, also of those that name their own."""
    for item in items:
        holder, name = getattr(item, "obj", None), "_hypothesis_internal_use_settings"
        if not hasattr(holder, name):
            holder, name = getattr(item, "cls", None), "settings"
        known = getattr(holder, name, None)
        if isinstance(known, settings):
            more = settings(known, max_examples=known.max_examples * EXPLORED, derandomize=False)
            setattr(getattr(holder, "__func__", holder), name, more)


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """Commands set up the log of the whole process: the tests after them expect it as it was.

    That holds for commands of fixtures with a larger scope, too, so it is reset before each test.
    """
    root, ours = logging.getLogger(), logging.getLogger("rescheduler")
    _reset_log()
    handlers = root.handlers[:], ours.handlers[:]
    yield
    root.handlers[:], ours.handlers[:] = handlers
    _reset_log()


def _reset_log() -> None:
    root, ours = logging.getLogger(), logging.getLogger("rescheduler")
    root.handlers[:] = [each for each in root.handlers if type(each) is not logging.StreamHandler]
    root.setLevel(logging.WARNING)
    ours.setLevel(logging.NOTSET)
    ours.propagate = True


@pytest.fixture(scope="session")
def unused_tcp_port_factory() -> Callable[[], int]:
    """Unlike pytest-asyncio's: no outgoing connection takes the port before a server listens on it."""
    return lambda: free_ports(1)[0]


@pytest.fixture
def unused_tcp_port(unused_tcp_port_factory: Callable[[], int]) -> int:
    return unused_tcp_port_factory()


@pytest.fixture(scope="session")
def nothing_is_left_running() -> Iterator[None]:
    """Set up before every control plane, so that it looks after all of them have stopped."""
    yield
    assert leftovers() == [], "a test run leaves nothing running"


@pytest.fixture(scope="session")
def shared_control_plane(
    nothing_is_left_running: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """One real control plane for all tests that need nothing special."""
    with ControlPlane(tmp_path_factory.mktemp("control-plane"), QUICK) as plane:
        yield plane
