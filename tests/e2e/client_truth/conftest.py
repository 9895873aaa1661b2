"""A control plane of our own: without controllers, so that nobody but the tests changes anything."""

from collections.abc import AsyncIterator, Iterator

import pytest

from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from tests.e2e.client_truth.encodings import Overheard
from tests.e2e.client_truth.rich import FEATURES
from tests.testbed import ControlPlane, Options


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    options = Options(controller_manager=False, scheduler=False, audit=False, feature_gates=FEATURES)
    with ControlPlane(tmp_path_factory.mktemp("bare"), options) as started:
        yield started


@pytest.fixture
async def overheard(bare: ControlPlane) -> AsyncIterator[Overheard]:
    transport = Overheard(HttpTransport(load_cluster_access(bare.kubeconfig)))
    yield transport
    await transport.close()


@pytest.fixture
def truth(overheard: Overheard) -> Client:
    return Client(overheard)
