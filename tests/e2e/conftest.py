# ruff: noqa: F811 - fixtures that are imported and asked for by name
"""Tests on the real control plane; each has its own namespace and its own fake nodes.

What runs on the simulator, too, is in `tests/stories`.
"""

import pytest

from rescheduler.kube.client import Client
from tests.stories.fixtures import eventually  # noqa: F401
from tests.stories.real_cluster import real_client, real_namespace, start_kubelet  # noqa: F401
from tests.testbed import ControlPlane


@pytest.fixture(scope="session", autouse=True)
def checked_for_leftovers(nothing_is_left_running: None) -> None:
    """Check for leftover processes, also after tests that start their own."""


@pytest.fixture(scope="session")
def control_plane(shared_control_plane: ControlPlane) -> ControlPlane:
    """Packages that need another one have a fixture of the same name."""
    return shared_control_plane


@pytest.fixture
def client(real_client: Client) -> Client:
    return real_client


@pytest.fixture
def namespace(real_namespace: str) -> str:
    return real_namespace
