"""Fixtures of stories, built on the fixture `cluster`, simulated or real."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import pytest

from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.kube.api_resources import Object
from rescheduler.kube.client import Client
from tests.e2e.permissions import DAEMON
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.real_cluster import RealCluster
from tests.stories.sandbox import MakeSandbox
from tests.stories.simulated_cluster import SimulatedCluster

Cluster = SimulatedCluster | RealCluster
Eventually = Callable[..., Awaitable[Any]]


@pytest.fixture(scope="session")
def custom_resource_definitions() -> list[Object]:
    """The custom resources that every cluster of the stories has."""
    return [podmigration_crd()]


@pytest.fixture
def client(cluster: Cluster) -> Client:
    return cluster.client


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    return cluster.namespace


@pytest.fixture
def eventually() -> Eventually:
    """await eventually(look, timeout_s=…): asks until the answer is true, and returns it."""

    async def wait(look: Callable[[], Awaitable[Any]], timeout_s: float = 60.0) -> Any:
        seen: Any = None
        try:
            async with asyncio.timeout(timeout_s):
                while not (seen := await look()):  # noqa: ASYNC110 - only asking tells
                    await asyncio.sleep(0.1)
        except TimeoutError:
            pytest.fail(f"not so within {timeout_s:g} s; last seen: {seen!r}")
        return seen

    return wait


@pytest.fixture
def serve_usage(cluster: Cluster) -> Callable[[Any], AbstractAsyncContextManager[Any]]:
    """async with serve_usage(kubelet): the metrics API serves what its pods use."""
    return cluster.usage_served


@pytest.fixture
async def ephemeral_claims(cluster: Cluster) -> AsyncIterator[None]:
    """A controller creates the claims of ephemeral volumes."""
    async with cluster.ephemeral_volume_controller():
        yield


@pytest.fixture
def make_sandbox(cluster: Cluster) -> MakeSandbox:
    """await make_sandbox(nodes=3): a sandbox with so many nodes, on which pods are ready at once."""
    return cluster.sandbox


@pytest.fixture
def make_moves(cluster: Cluster) -> MakeMoves:
    """await make_moves(nodes=3, **policy): a sandbox with so many nodes, on which pods are ready at once."""

    async def make(nodes: int = 4, **policy: Any) -> Moves:
        ours = await cluster.connect_as(DAEMON)
        moves = Moves(await cluster.sandbox(nodes), cluster.now, ours=ours)
        moves.policy = replace(moves.policy, **policy)
        return moves

    return make
