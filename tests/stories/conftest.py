"""One parametrized fixture: `cluster` is simulated or real, and each story runs on both."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from tests.stories.cluster_kinds import CONTROL_PLANE, SIMULATOR, kind_of, loops_of
from tests.stories.fixtures import (  # noqa: F401
    client,
    custom_resource_definitions,
    ephemeral_claims,
    eventually,
    make_moves,
    make_sandbox,
    namespace,
    serve_usage,
)
from tests.stories.real_cluster import control_plane, real_client, real_cluster, real_namespace, start_kubelet  # noqa: F401
from tests.stories.simulated_cluster import connect, life, server, simulated_client, simulated_cluster  # noqa: F401


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, type[asyncio.AbstractEventLoop]]:
    """Collect each story once for each kind of cluster, with an event loop that has that kind's time."""
    return loops_of(item)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark each item with the kind of its cluster, so that `-m` can choose."""
    item.add_marker(kind_of(item))


@pytest.fixture
def cluster_kind(request: pytest.FixtureRequest) -> str:
    return kind_of(request.node)


@pytest.fixture
def at_once(cluster_kind: str) -> timedelta:
    """How long something takes that waits for nothing: on the control plane, other processes share the
    processors. A controller that misses a change tries again after half a minute at the earliest."""
    return timedelta(seconds=3 if cluster_kind == SIMULATOR else 20)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, cluster_kind: str) -> Any:
    fixture = {SIMULATOR: "simulated_cluster", CONTROL_PLANE: "real_cluster"}[cluster_kind]
    return request.getfixturevalue(fixture)
