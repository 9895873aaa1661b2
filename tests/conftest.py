"""What holds for all tests."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.testbed import ControlPlane, leftovers
from tests.testbed.options import QUICK

# Helpers assert, too: say what was compared there as well.
pytest.register_assert_rewrite("tests.e2e", "tests.stories")

EXPLORED = int(os.environ.get("EXPLORE", "1"))
"""How many times as many examples as every day each property is tried with; then at random (make explore)."""

# Every day the same examples: a first `make test` is no lottery. Time limits of single examples say more
# about the machine than about the code.
settings.register_profile(
    "everyday", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
settings.load_profile("everyday" if EXPLORED == 1 else "explore")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Raise the number of examples of every property, also of those that name their own."""
    if EXPLORED == 1:
        return
    for item in items:
        holder, name = getattr(item, "obj", None), "_hypothesis_internal_use_settings"
        if not hasattr(holder, name):
            holder, name = getattr(item, "cls", None), "settings"
        known = getattr(holder, name, None)
        if isinstance(known, settings):
            more = settings(known, max_examples=known.max_examples * EXPLORED, derandomize=False)
            setattr(getattr(holder, "__func__", holder), name, more)


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
