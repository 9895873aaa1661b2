"""What the facts are played on: our custom resources, and per test a namespace with nodes of its own."""

import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from rescheduler.kube.client import Client
from tests.e2e.facts.podmigrations import definitions
from tests.e2e.facts.stage import AT_ONCE, SetStage, Stage, until_usable
from tests.testbed import ControlPlane, Part
from tests.testbed.fake_kubelet import FakeKubelet
from tests.testbed.usage import UsageApi


@pytest.fixture(scope="package")
def migrations_installed(control_plane: ControlPlane) -> None:
    names = []
    for definition in definitions():
        names.append(f"customresourcedefinition/{definition['metadata']['name']}")
        control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(definition))
    control_plane.kubectl("wait", "--for=condition=Established", *names)
    # It asks which kinds there are only every half a minute, or when it starts.
    control_plane.restart(Part.CONTROLLER_MANAGER)


@pytest.fixture
def set_stage(
    client: Client, namespace: str, play: Callable[..., Awaitable[Any]], migrations_installed: None
) -> SetStage:
    """await set_stage(nodes=3): a stage with so many nodes, on which pods are ready at once."""

    async def set_it(nodes: int = 4) -> Stage:
        kubelet = await play({"pods": [AT_ONCE]}, nodes=nodes)
        return Stage(client, namespace, kubelet, await until_usable(client, kubelet, nodes))

    return set_it


@pytest.fixture
def tell_usage(client: Client) -> Callable[[FakeKubelet], AbstractAsyncContextManager[UsageApi]]:
    """async with tell_usage(kubelet): the metrics API tells what its pods use."""
    return lambda kubelet: UsageApi(client, kubelet).running()
