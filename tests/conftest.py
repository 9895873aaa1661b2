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

EXPLORED = int(os.environ.get("EXPLORE", "0"))
"""How many times its own number of examples each property is tried with, at random (make explore); 0 every
day."""

EVERYDAY_SHARE, FEWEST_EXAMPLES = 3, 12
"""Every day a property is tried with one in so many of its examples, but not with fewer than this: they are
the same every day. The mutation check, `make test-size` and `make explore` use all of them."""

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
settings.load_profile("explore" if EXPLORED else "everyday")


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
    if EXPLORED:
        change_examples(items, lambda declared: declared * EXPLORED, derandomize=False)
    elif settings.get_current_profile_name() == "everyday":
        everyday = [item for item in items if item.get_closest_marker("size") is None]
        change_examples(everyday, everyday_examples)


def pytest_collection_finish() -> None:
    """Keep ten thousand collected tests out of every garbage collection: they stay until the end."""
    gc.collect()
    gc.freeze()


def everyday_examples(declared: int) -> int:
    return max(declared // EVERYDAY_SHARE, min(declared, FEWEST_EXAMPLES))


def change_examples(items: list[pytest.Item], examples_of: Callable[[int], int], **others: bool) -> None:
    """Change the number of examples of every property, also of those that name their own."""
    changed: set[int] = set()
    for item in items:
        holder, name = getattr(item, "obj", None), "_hypothesis_internal_use_settings"
        if not hasattr(holder, name):
            holder, name = getattr(item, "cls", None), "settings"
        holder = getattr(holder, "__func__", holder)
        known = getattr(holder, name, None)
        # Parametrised tests share one function.
        if isinstance(known, settings) and id(holder) not in changed:
            setattr(holder, name, settings(known, max_examples=examples_of(known.max_examples), **others))
            changed.add(id(holder))


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
